#include "train/traced_units.h"

#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/clock.h"

namespace ddpm::train {

double TracedUnits::now() const {
  if (!device_.is_cpu()) {
    const c10::impl::VirtualGuardImpl streams(device_.type());
    streams.synchronizeStream(streams.getStream(device_));
  }
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
