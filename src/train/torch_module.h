// A torch::nn::Module as train/model_trainer.h wants it. For programs that use LibTorch's C++ frontend, which ddpm
// itself does without.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "base/error.h"
#include "train/model_trainer.h"

namespace ddpm::train {

/// Parameters that require a gradient are trained; the others and the buffers are constants. A parameter that several
/// submodules share counts once, under its first name; those submodules must belong to one unit (ConfigError
/// otherwise). `units`: see OwnModel.
inline OwnModel model_of(const torch::nn::Module& module, std::vector<std::string> units = {}) {
  OwnModel model;
  model.units = std::move(units);
  std::map<const void*, std::string> seen;
  const auto unit_of = [&model](const std::string& name) {
    const auto holds = [&name](const std::string& unit) { return name == unit || name.starts_with(unit + "."); };
    return std::find_if(model.units.begin(), model.units.end(), holds);
  };
  const auto add = [&](const std::string& name, const at::Tensor& tensor, base::ParameterRole role) {
    if (!tensor.defined()) return;
    const auto [first, fresh] = seen.emplace(tensor.unsafeGetTensorImpl(), name);
    if (fresh) {
      model.tensors.push_back({name, tensor, role});
    } else if (unit_of(first->second) != unit_of(name)) {
      throw base::ConfigError("{} and {} are one tensor in two units: name a unit that holds both", first->second,
                              name);
    }
  };
  for (const auto& item : module.named_parameters()) {
    const bool trained = item.value().defined() && item.value().requires_grad();
    add(item.key(), item.value(), trained ? base::ParameterRole::trained : base::ParameterRole::constant);
  }
  for (const auto& item : module.named_buffers()) add(item.key(), item.value(), base::ParameterRole::constant);
  return model;
}

}  // namespace ddpm::train
