// A torch::nn::Module as train/model_trainer.h wants it. For programs that use LibTorch's C++ frontend, which ddpm
// itself does without.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "train/model_trainer.h"

namespace ddpm::train {

/// Parameters that require a gradient are trained; the others and the buffers are constants. A parameter that several
/// submodules share counts once, under its first name. `units`: see OwnModel.
inline OwnModel model_of(const torch::nn::Module& module, std::vector<std::string> units = {}) {
  OwnModel model;
  model.units = std::move(units);
  std::set<const void*> seen;
  const auto add = [&seen](std::vector<NamedTensor>& list, const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) list.push_back({name, tensor});
  };
  for (const auto& item : module.named_parameters()) {
    const bool trained = item.value().defined() && item.value().requires_grad();
    add(trained ? model.parameters : model.constants, item.key(), item.value());
  }
  for (const auto& item : module.named_buffers()) add(model.constants, item.key(), item.value());
  return model;
}

}  // namespace ddpm::train
