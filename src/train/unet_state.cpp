#include "train/unet_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace ddpm::train {
namespace {

std::vector<parallel::ArenaParameter> trained_parameters(const nn::UNet2D& unet) {
  std::vector<parallel::ArenaParameter> trained;
  for (nn::Parameter* parameter : unet.parameters()) {
    if (parameter->trained) trained.push_back({parameter->name, parameter->shape, &parameter->value, parameter->unit});
  }
  return trained;
}

std::vector<engine::NamedTensor> make_constants(const nn::UNet2D& unet, at::Device device) {
  std::vector<engine::NamedTensor> constants;
  for (nn::Parameter* parameter : unet.parameters()) {
    if (parameter->trained) continue;
    parameter->value = at::empty(parameter->shape, at::TensorOptions().dtype(at::kFloat).device(device));
    constants.push_back({parameter->name, parameter->value});
  }
  return constants;
}

}  // namespace

UNetState::UNetState(const nn::UNet2DConfig& config, std::size_t ema_count, at::ScalarType compute_dtype,
                     at::Device device, const parallel::Sharding& sharding)
    : TrainedUNet{nn::UNet2D(config)},
      engine::TrainingState(trained_parameters(unet), make_constants(unet, device), ema_count, compute_dtype, device,
                            sharding) {}

void UNetState::initialize(uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::vector<float> values;
  auto entry = arena.entries().begin();
  int index = 0;
  for (nn::Parameter* parameter : unet.parameters()) {
    values.resize(static_cast<std::size_t>(parameter->numel()));
    nn::initial_values(*parameter, index++, seed, values);
    const at::Tensor source = at::from_blob(values.data(), parameter->shape, at::kFloat);
    if (parameter->trained) {
      arena.assign(arena.master(), *entry++, source);
    } else {
      parameter->value.copy_(source);
    }
  }
  start_from_master();
}

void UNetState::assign(const std::string& name, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  for (const auto& entry : arena.entries()) {
    if (entry.name == name) arena.assign(arena.master(), entry, values);
  }
  for (const engine::NamedTensor& constant : constants) {
    if (constant.name == name) constant.value.copy_(values);
  }
}

}  // namespace ddpm::train
