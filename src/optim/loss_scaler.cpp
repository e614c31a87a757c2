#include "optim/loss_scaler.h"

#include "base/counted.h"
#include "base/error.h"

namespace ddpm::optim {

void describe(config::Section& section, PrecisionConfig& c) {
  section
      .key("mixed_precision", c.mixed_precision,
           "Dtype of working weights and activations; main weights, gradients and moments stay float32.")
      .key("initial_loss_scale", c.initial_loss_scale, "First loss scale of fp16.", {.min = 0.0, .above_min = true})
      .key("loss_scale_window", c.loss_scale_window, "Applied steps in a row after which fp16's loss scale doubles.",
           {.min = 1})
      .key("min_loss_scale", c.min_loss_scale, "An overflow that would take fp16's loss scale below it ends the run.",
           {.min = 0.0, .above_min = true})
      .key("max_consecutive_skips", c.max_consecutive_skips,
           "As many steps in a row may be skipped for overflow; one more ends the run.", {.min = 0})
      .key("allow_tf32", c.allow_tf32, "Let a GPU round float32 products to TF32.");
}

void validate(const PrecisionConfig& c) {
  if (c.initial_loss_scale < c.min_loss_scale) {
    throw base::ConfigError("precision.initial_loss_scale = {} is below precision.min_loss_scale = {}",
                            c.initial_loss_scale, c.min_loss_scale);
  }
}

LossScaler::LossScaler(const PrecisionConfig& config, int64_t skip_nonfinite)
    : rule_{.dynamic = config.mixed_precision == MixedPrecision::fp16,
            .min_scale = config.min_loss_scale,
            .window = config.loss_scale_window,
            .max_skips = skip_nonfinite} {
  if (!rule_.dynamic) return;
  rule_.max_skips = config.max_consecutive_skips;
  state_.scale = config.initial_loss_scale;
}

void LossScaler::update(bool found_inf) {
  switch (advance_loss_scale(rule_, found_inf, state_)) {
    case ScaleVerdict::fine:
      return;
    case ScaleVerdict::not_finite:
      throw base::NumericsError("the gradients hold a value that is not finite{}",
                                rule_.max_skips == 0
                                    ? ""
                                    : fmt::format(", in {} in a row; fault.skip_nonfinite = {}",
                                                  base::counted(state_.consecutive_skips, "step"), rule_.max_skips));
    case ScaleVerdict::scale_too_low:
      throw base::NumericsError(
          "gradients overflow at loss scale {}, and half of it is below precision.min_loss_scale = {}, with {} in a "
          "row skipped",
          state_.scale, rule_.min_scale, base::counted(state_.consecutive_skips, "step"));
    case ScaleVerdict::too_many_skips:
      throw base::NumericsError(
          "gradients overflow at loss scale {}: {} in a row skipped, precision.max_consecutive_skips = {}",
          state_.scale, base::counted(state_.consecutive_skips, "step"), rule_.max_skips);
  }
}

}  // namespace ddpm::optim
