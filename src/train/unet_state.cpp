#include "train/unet_state.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

namespace ddpm::train {
namespace {

/// The model, or the part of it that this rank holds.
nn::UNet2D held(nn::UNet2D model, const parallel::Sharding& sharding) {
  if (sharding.channel_parts > 1) model.hold_channels(sharding.channel_part, sharding.channel_parts);
  return model;
}

/// The model's parameters; constants are bound to memory.
std::vector<parallel::ArenaParameter> parameters_of(const nn::UNet2D& unet, at::Device device) {
  std::vector<parallel::ArenaParameter> parameters;
  for (nn::Parameter* p : unet.parameters()) {
    if (p->role == base::ParameterRole::constant) {
      p->value = at::empty(p->shape, at::TensorOptions().dtype(at::kFloat).device(device));
    }
    parameters.push_back({p->name, p->shape, &p->value, p->unit, p->role, p->split});
  }
  return parameters;
}

}  // namespace

UNetState::UNetState(const nn::UNet2DConfig& config, std::size_t ema_count, at::ScalarType compute_dtype,
                     at::Device device, const parallel::Sharding& sharding)
    : UNetState(nn::UNet2D(config), ema_count, compute_dtype, device, sharding) {}

UNetState::UNetState(nn::UNet2D model, std::size_t ema_count, at::ScalarType compute_dtype, at::Device device,
                     const parallel::Sharding& sharding)
    : TrainedUNet{held(std::move(model), sharding)},
      engine::TrainingState(parameters_of(unet, device), ema_count, compute_dtype, device, sharding) {}

void UNetState::initialize(uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::vector<float> values;
  auto entry = arena.entries().begin();
  auto fixed_tensor = fixed.begin();
  int index = 0;
  for (nn::Parameter* parameter : unet.parameters()) {
    if (parameter->role == base::ParameterRole::pretrained) {
      ++index;
      ++fixed_tensor;
      continue;
    }
    const std::vector<int64_t> shape = parameter->whole_shape();
    values.resize(static_cast<std::size_t>(c10::multiply_integers(shape)));
    nn::initial_values(*parameter, index++, seed, values);
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
