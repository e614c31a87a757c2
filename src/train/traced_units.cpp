#include "train/traced_units.h"

#include <utility>

#include <ATen/core/Tensor.h>

#include "base/clock.h"
#include "device/current_stream.h"

namespace ddpm::train {

double TracedUnits::now() const {
  device::wait_for_current_stream(device_);
  return base::steady_seconds();
}

nn::UnitState TracedUnits::run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                               const nn::ForwardContext& context) {
  const double began = now();
  state = run_inner(unit, index, std::move(state), context);
  trace_.add({.name = "forward " + unit.name(), .begin = began, .end = now()});
  // The first unit leaves the images as they are, and makes the embedding.
  const at::Tensor& result = index == 0 ? state.temb : state.x;
  if (result.defined() && result.requires_grad()) {
    result.register_hook([this, name = unit.name()](const at::Tensor& /*gradient*/) { begin_backward(name, now()); });
  }
  return state;
}

void TracedUnits::begin_backward(const std::string& unit, double time) {
  if (!unit_.empty()) trace_.add({.name = "backward " + unit_, .begin = began_, .end = time});
  unit_ = unit;
  began_ = time;
}

}  // namespace ddpm::train
