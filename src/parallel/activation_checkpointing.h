// Which activations are kept for backward, and which are computed again there: see nn/recompute.h.
//
//   none        everything that backward reads is kept
//   attention   of attention blocks only their inputs are kept
//   blocks      of every unit (a residual block with its attention, a resampler) only its inputs are kept
#pragma once

#include <cstddef>

#include "nn/unit_executor.h"
#include "parallel/config.h"

namespace ddpm::parallel {

/// Gradients have the same bits whatever is kept. The inner executors run a unit a second time in its backward, so what
/// must happen once around a unit's forward (gathering its parameters) belongs into an outer one.
class ActivationCheckpointer final : public nn::UnitExecutor {
 public:
  explicit ActivationCheckpointer(ActivationCheckpointing what) : what_(what) {}
  [[nodiscard]] nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                                  const nn::ForwardContext& context) override;

 private:
  ActivationCheckpointing what_;
};

}  // namespace ddpm::parallel
