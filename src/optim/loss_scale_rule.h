// The transitions of the loss scale, as one function for the host and for kernels.
#pragma once

#include <cfloat>
#include <cstdint>

#include <c10/macros/Macros.h>

namespace ddpm::optim {

/// What a checkpoint keeps of the loss scale.
struct LossScaleState {
  double scale = 1.0;
  int64_t growth_tracker = 0;     ///< applied steps since the scale last changed
  int64_t consecutive_skips = 0;  ///< steps skipped in a row
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

struct LossScaleRule {
  bool dynamic = false;    ///< fp16; otherwise the scale stays as it is
  double min_scale = 1.0;  ///< read only when dynamic
  int64_t window = 1000;   ///< applied steps in a row after which the scale doubles; read only when dynamic
  int64_t max_skips = 0;   ///< as many steps in a row may be skipped
};

/// Whether training may continue, and if not, why.
enum class ScaleVerdict : uint8_t { fine, not_finite, scale_too_low, too_many_skips };

/// One optimizer step. The scale of torch.amp.GradScaler: halved when gradients overflow, doubled after `window`
/// applied steps in a row. Unless the verdict is fine, scale and growth tracker stay as they were.
C10_HOST_DEVICE inline ScaleVerdict advance_loss_scale(const LossScaleRule& rule, bool found_inf,
                                                       LossScaleState& state) {
  if (!found_inf) {
    state.consecutive_skips = 0;
    if (!rule.dynamic || ++state.growth_tracker < rule.window) return ScaleVerdict::fine;
    state.growth_tracker = 0;
    // The loss is multiplied in float32, where a scale beyond its range would be infinite.
    if (2.0 * state.scale <= static_cast<double>(FLT_MAX)) state.scale *= 2.0;
    return ScaleVerdict::fine;
  }
  const bool too_many = ++state.consecutive_skips > rule.max_skips;
  if (!rule.dynamic) return too_many ? ScaleVerdict::not_finite : ScaleVerdict::fine;
  const double lower = 0.5 * state.scale;
  if (lower < rule.min_scale) return ScaleVerdict::scale_too_low;
  if (too_many) return ScaleVerdict::too_many_skips;
  state.scale = lower;
  state.growth_tracker = 0;
  return ScaleVerdict::fine;
}

}  // namespace ddpm::optim
