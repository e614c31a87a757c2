#include "parallel/unit_times.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/clock.h"
#include "parallel/unit_flow.h"

namespace ddpm::parallel {
namespace {

/// Keeps the state before each unit.
class StatesBefore final : public nn::UnitExecutor {
 public:
  nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                    const nn::ForwardContext& context) override {
    states.push_back(state);
    return run_inner(unit, index, std::move(state), context);
  }

  std::vector<nn::UnitState> states;
};

/// Calls use(tensor) for each tensor that flows between units.
template <typename Use>
void for_each_value(nn::UnitState& state, const Use& use) {
  for (std::size_t place = 0; place < value_count(state); ++place) {
    if (at::Tensor& value = state_value(state, place); value.defined()) use(value);
  }
}

/// A tensor of random numbers, or ones where they are integers, like one of the meta device.
at::Tensor made_like(const at::Tensor& shape, at::Device device) {
  if (!shape.defined()) return shape;
  const at::TensorOptions options = shape.options().device(device);
  if (!shape.is_floating_point()) return at::ones_like(shape, options);
  at::Tensor made = at::empty_like(shape, options);
  made.normal_();
  return made.set_requires_grad(shape.requires_grad());
}

nn::UnitState made_like(nn::UnitState state, at::Device device) {
  for_each_value(state, [&](at::Tensor& value) { value = made_like(value, device); });
  for (at::Tensor* given :
       {&state.timesteps, &state.given.class_labels, &state.given.parameters, &state.given.parameters_kept}) {
    *given = made_like(*given, device);
  }
  return state;
}

void wait_for(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// Seconds of one forward and backward pass of a unit from `before`.
double seconds_of(const nn::Unit& unit, nn::UnitState before, const nn::ForwardContext& context, at::Device device) {
  std::vector<const c10::TensorImpl*> given;
  for_each_value(before, [&](const at::Tensor& value) { given.push_back(value.unsafeGetTensorImpl()); });
  wait_for(device);
  const auto start = base::Clock::now();
  nn::UnitState after = unit.forward(std::move(before), context);
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> gradients;
  for_each_value(after, [&](const at::Tensor& value) {
    if (!value.requires_grad() || std::ranges::find(given, value.unsafeGetTensorImpl()) != given.end()) return;
    results.push_back(value);
    gradients.push_back(at::ones_like(value));
  });
  if (!results.empty()) torch::autograd::backward(results, gradients);
  wait_for(device);
  return base::seconds_since(start);
}

}  // namespace

std::vector<double> unit_seconds(const nn::UNet2DConfig& model, at::ScalarType compute_dtype, at::Device device,
                                 const ActivationBatch& batch, int64_t repeats) {
  nn::UNet2D unet(model);
  bind_on_meta(unet, compute_dtype);
  StatesBefore seen;
  static_cast<void>(forward_on_meta(unet, batch, seen));
  const std::unique_ptr<nn::Partition> whole = nn::whole_image(unet.image_shape());
  const nn::ForwardContext context{.random = {.training = true}, .partition = *whole};
  const at::AutoGradMode with_gradients(true);
  std::vector<double> seconds;
  for (std::size_t u = 0; u < unet.units().size(); ++u) {
    const nn::Unit& unit = *unet.units()[u];
    nn::allocate(unit.parameters(), at::TensorOptions(compute_dtype).device(device));
    nn::initialize(unit.parameters(), 0);
    for (nn::Parameter* p : unit.parameters()) p->value.set_requires_grad(p->role == base::ParameterRole::trained);
    double fastest = std::numeric_limits<double>::infinity();
    for (int64_t repeat = 0; repeat <= repeats; ++repeat) {
      const double one = seconds_of(unit, made_like(seen.states[u], device), context, device);
      if (repeat > 0) fastest = std::min(fastest, one);
      for (nn::Parameter* p : unit.parameters()) p->value.mutable_grad().reset();
    }
    seconds.push_back(fastest);
    for (nn::Parameter* p : unit.parameters()) p->value = at::Tensor();
    seen.states[u] = {};
  }
  return seconds;
}

}  // namespace ddpm::parallel
