#include "train/unet_state.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include "parallel/unit_flow.h"

namespace ddpm::train {
namespace {

/// The model, and the part of it that this rank holds.
TrainedUNet held(nn::UNet2D model, const parallel::Sharding& sharding) {
  std::vector<layout::Range> stages =
      parallel::cut_model(model, sharding.stages, sharding.stage_units, sharding.channel_part, sharding.channel_parts);
  const layout::Range units = stages.at(static_cast<std::size_t>(sharding.stage));
  return {.unet = std::move(model), .stages = std::move(stages), .units = units};
}

/// The parameters that this rank holds; constants are bound to memory.
std::vector<parallel::ArenaParameter> parameters_of(const TrainedUNet& model, at::Device device) {
  std::vector<parallel::ArenaParameter> parameters;
  for (nn::Parameter* p : model.unet.parameters()) {
    if (!model.holds(*p)) continue;
    if (p->role == base::ParameterRole::constant) {
      p->value = at::empty(p->shape, at::TensorOptions().dtype(at::kFloat).device(device));
    }
    parameters.push_back({p->name, p->shape, &p->value, p->unit, p->role, p->split});
  }
  return parameters;
}

}  // namespace

int64_t TrainedUNet::trained_count() const {
  int64_t count = 0;
  for (const nn::Parameter* p : unet.parameters()) {
    if (p->role == base::ParameterRole::trained) count += p->split.times() * p->numel();
  }
  return count;
}

UNetState::UNetState(const nn::UNet2DConfig& config, std::size_t ema_count, at::ScalarType compute_dtype,
                     at::Device device, const parallel::Sharding& sharding)
    : UNetState(nn::UNet2D(config), ema_count, compute_dtype, device, sharding) {}

UNetState::UNetState(nn::UNet2D model, std::size_t ema_count, at::ScalarType compute_dtype, at::Device device,
                     const parallel::Sharding& sharding)
    : TrainedUNet{held(std::move(model), sharding)},
      engine::TrainingState(parameters_of(*this, device), ema_count, compute_dtype, device, sharding) {}

void UNetState::initialize(uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::vector<float> values;
  auto entry = arena.entries().begin();
  auto fixed_tensor = fixed.begin();
  int index = 0;
  for (nn::Parameter* parameter : unet.parameters()) {
    const int place = index++;
    if (!holds(*parameter)) continue;
    if (parameter->role == base::ParameterRole::pretrained) {
      ++fixed_tensor;
      continue;
    }
    const std::vector<int64_t> shape = parameter->whole_shape();
    values.resize(static_cast<std::size_t>(c10::multiply_integers(shape)));
    nn::initial_values(*parameter, place, seed, values);
    const at::Tensor source = at::from_blob(values.data(), shape, at::kFloat);
    if (parameter->role == base::ParameterRole::trained) {
      arena.assign(arena.master(), *entry++, source);
    } else {
      const engine::FixedTensor& tensor = *fixed_tensor++;
      tensor.value.copy_(nn::part_of(source, tensor.split));
    }
  }
  start_from_master();
}

void UNetState::assign(const std::string& name, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  for (const auto& entry : arena.entries()) {
    if (entry.name == name) arena.assign(arena.master(), entry, values);
  }
  for (engine::FixedTensor& tensor : fixed) {
    if (tensor.name == name) tensor.value.copy_(nn::part_of(values, tensor.split));
  }
}

}  // namespace ddpm::train
