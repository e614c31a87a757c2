#include "engine/training_state.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include "nn/parameter.h"

namespace ddpm::engine {
namespace {

/// Memory for a frozen or pretrained parameter, to which its value is bound.
FixedTensor make_frozen(const parallel::ArenaParameter& parameter, at::ScalarType compute_dtype, at::Device device) {
  const auto zeros = [&](at::ScalarType dtype) {
    const auto options = at::TensorOptions(dtype).device(device);
    return nn::view_of_run(at::zeros({c10::multiply_integers(parameter.shape)}, options), parameter.shape);
  };
  const bool saved = parameter.role == base::ParameterRole::frozen;
  const at::Tensor value = zeros(saved ? at::kFloat : compute_dtype);
  *parameter.value = value.scalar_type() == compute_dtype ? value : zeros(compute_dtype);
  return {parameter.name, parameter.role, value, *parameter.value, parameter.split};
}

std::vector<FixedTensor> make_fixed(const std::vector<parallel::ArenaParameter>& parameters,
                                    at::ScalarType compute_dtype, at::Device device) {
  std::vector<FixedTensor> fixed;
  for (const parallel::ArenaParameter& parameter : parameters) {
    switch (parameter.role) {
      case base::ParameterRole::trained:
        break;
      case base::ParameterRole::frozen:
      case base::ParameterRole::pretrained:
        fixed.push_back(make_frozen(parameter, compute_dtype, device));
        break;
      case base::ParameterRole::constant:
        fixed.push_back({parameter.name, parameter.role, *parameter.value, *parameter.value});
        break;
    }
  }
  return fixed;
}

}  // namespace

void copy_values(const parallel::StateBuffer& from, const parallel::StateBuffer& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

TrainingState::TrainingState(const std::vector<parallel::ArenaParameter>& parameters, std::size_t ema_count,
                             at::ScalarType compute_dtype, at::Device device, const parallel::Sharding& sharding)
    : fixed(make_fixed(parameters, compute_dtype, device)),
      arena(parameters, compute_dtype, device, sharding),
      exp_avg(arena.make_state()),
      exp_avg_sq(arena.make_state()) {
  for (std::size_t i = 0; i < ema_count; ++i) ema.push_back(arena.make_state());
  if (sharding.islands > 0) outer = OuterState{.anchor = arena.make_state(), .momentum = arena.make_state()};
}

void TrainingState::start_from_master() {
  const at::NoGradGuard no_grad;
  refresh_working();
  for (const parallel::StateBuffer& average : ema) copy_values(arena.master(), average);
  if (outer) copy_values(arena.master(), outer->anchor);
}

void TrainingState::refresh_working() {
  const at::NoGradGuard no_grad;
  arena.refresh_working();
  for (FixedTensor& tensor : fixed) {
    if (!tensor.working.is_alias_of(tensor.value)) tensor.working.copy_(tensor.value);
  }
}

void TrainingState::before_change() { std::exchange(reader, {}).before_caller(); }

}  // namespace ddpm::engine
