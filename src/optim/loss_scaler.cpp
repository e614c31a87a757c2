#include "optim/loss_scaler.h"

#include <cmath>

#include "base/error.h"

namespace ddpm::optim {
namespace {

constexpr double kGrowth = 2.0;
constexpr double kBackoff = 0.5;

}  // namespace

void describe(config::Section& section, PrecisionConfig& c) {
  section
      .key("mixed_precision", c.mixed_precision,
           "Dtype of working weights and activations; main weights, gradients and moments stay float32.",
           {.choices = {"no", "bf16", "fp16"}})
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
    : config_(config), skip_nonfinite_(skip_nonfinite), dynamic_(config.mixed_precision == "fp16") {
  if (dynamic_) state_.scale = config.initial_loss_scale;
}

void LossScaler::update(bool found_inf) {
  if (found_inf) {
    skip();
  } else {
    advance();
  }
}

void LossScaler::skip() {
  ++state_.consecutive_skips;
  if (!dynamic_) {
    if (state_.consecutive_skips <= skip_nonfinite_) return;
    throw base::NumericsError("the gradients hold a value that is not finite{}",
                              skip_nonfinite_ == 0 ? ""
                                                   : fmt::format(", in {} steps in a row; fault.skip_nonfinite = {}",
                                                                 state_.consecutive_skips, skip_nonfinite_));
  }
  const double lower = state_.scale * kBackoff;
  if (lower < config_.min_loss_scale) {
    throw base::NumericsError(
        "gradients overflow at loss scale {}, and half of it is below precision.min_loss_scale = {}: {} steps were "
        "skipped in a row",
        state_.scale, config_.min_loss_scale, state_.consecutive_skips);
  }
  if (state_.consecutive_skips > config_.max_consecutive_skips) {
    throw base::NumericsError(
        "gradients overflow at loss scale {}: {} steps were skipped in a row, precision.max_consecutive_skips = {}",
        state_.scale, state_.consecutive_skips, config_.max_consecutive_skips);
  }
  state_.scale = lower;
  state_.growth_tracker = 0;
}

void LossScaler::advance() {
  state_.consecutive_skips = 0;
  if (!dynamic_) return;
  if (++state_.growth_tracker < config_.loss_scale_window) return;
  state_.growth_tracker = 0;
  // The loss is multiplied in float32, where a scale beyond its range would be infinite.
  const double higher = state_.scale * kGrowth;
  if (std::isfinite(static_cast<float>(higher))) state_.scale = higher;
}

}  // namespace ddpm::optim
