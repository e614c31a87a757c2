#include "engine/part_timer.h"

#include <string>

#include "base/named.h"
#include "device/current_stream.h"
#include "device/ranges.h"

namespace ddpm::engine {
namespace {

std::string span_name(StepPart part) {
  return part == StepPart::optimizer ? "update" : std::string(base::name_of(part));
}

}  // namespace

double PartTimer::lap() {
  if (device_) device::wait_for_current_stream(*device_);
  const base::Clock::time_point now = base::Clock::now();
  const double seconds = std::chrono::duration<double>(now - since_).count();
  since_ = now;
  return seconds;
}

void PartTimer::enter(StepPart part) {
  seconds_.at(static_cast<std::size_t>(part_)) += lap();
  if (trace_ != nullptr) {
    const double now = base::steady_seconds();
    if (part_ != StepPart::other) trace_->add({.name = span_name(part_), .begin = entered_, .end = now});
    entered_ = now;
  }
  if (part_ != StepPart::other) device::end_range();
  if (part != StepPart::other) device::begin_range(span_name(part).c_str());
  part_ = part;
}

void PartTimer::leave_share(double share, StepPart part) {
  const double seconds = lap();
  seconds_.at(static_cast<std::size_t>(part_)) += (1.0 - share) * seconds;
  seconds_.at(static_cast<std::size_t>(part)) += share * seconds;
}

StepSeconds PartTimer::take() {
  enter(StepPart::other);
  const StepSeconds taken = seconds_;
  seconds_ = {};
  return taken;
}

}  // namespace ddpm::engine
