// Forward and backward of each unit of the model as spans of a trace.
#pragma once

#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "base/trace.h"
#include "nn/unit_executor.h"

namespace ddpm::train {

/// The outermost executor of a recorded micro-batch, of a pipeline's stage the one inside. The backward of a unit
/// begins when the gradient of what it returned is there, and ends when that of the unit before it is. On a GPU each
/// span waits for the device.
class TracedUnits final : public nn::UnitExecutor {
 public:
  /// Everything outlives this object, and this object the graph of its forward.
  TracedUnits(nn::UnitExecutor& inner, base::Trace& trace, c10::Device device)
      : UnitExecutor(&inner), trace_(trace), device_(device) {}

  [[nodiscard]] nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                                  const nn::ForwardContext& context) override;
  /// Backward has ended, at `time`.
  void end_backward(double time) { begin_backward("", time); }

 private:
  [[nodiscard]] double now() const;
  void begin_backward(const std::string& unit, double time);

  base::Trace& trace_;
  c10::Device device_;
  std::string unit_;  // whose backward runs; "": none
  double began_ = 0.0;
};

}  // namespace ddpm::train
