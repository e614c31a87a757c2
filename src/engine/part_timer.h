// Where a rank's time goes within a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <c10/core/Device.h>

#include "base/clock.h"
#include "base/trace.h"

namespace ddpm::engine {

/// data: waiting for images, and making tensors of them. reduction: waiting for other ranks after backward;
/// communication that hides behind backward, and waits during it, count as backward. other: noise, bookkeeping.
enum class StepPart : uint8_t { data, forward, backward, reduction, optimizer, ema, other };

constexpr auto names_of(StepPart /*type*/) {
  return std::to_array<std::string_view>({"data", "forward", "backward", "reduction", "optimizer", "ema", "other"});
}
inline constexpr std::size_t kStepParts = names_of(StepPart{}).size();

/// Seconds by part.
using StepSeconds = std::array<double, kStepParts>;

/// Each part but `other` is a range for NVIDIA's tools, too (device/ranges.h).
class PartTimer {
 public:
  /// What follows belongs to `part`.
  void enter(StepPart part);
  /// Books a share, from 0 to 1, of the time since enter() to another part.
  void leave_share(double share, StepPart part);
  /// The seconds since the last call. What follows belongs to `other`.
  StepSeconds take();

  /// From now on each enter() waits until `device` has done its work: right parts, and no overlap between them. Null
  /// ends that.
  void synchronize(std::optional<c10::Device> device) { device_ = device; }
  /// From now on each part but `other` is also a span of `trace`, which outlives this object.
  void trace(base::Trace* trace) { trace_ = trace; }
  /// When the part began, by base::steady_seconds(), while there is a trace.
  [[nodiscard]] double entered() const { return entered_; }

 private:
  /// Seconds since the last call.
  double lap();

  StepPart part_ = StepPart::other;
  base::Clock::time_point since_ = base::Clock::now();
  StepSeconds seconds_{};
  std::optional<c10::Device> device_;
  base::Trace* trace_ = nullptr;
  double entered_ = 0.0;
};

}  // namespace ddpm::engine
