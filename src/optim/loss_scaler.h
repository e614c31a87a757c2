// Mixed precision: its keys, and the dynamic loss scale that keeps float16 gradients in range.
#pragma once

#include <cstdint>

#include "config/schema.h"
#include "optim/loss_scale_rule.h"
#include "optim/mixed_precision.h"

namespace ddpm::optim {

/// The [precision] section.
struct PrecisionConfig {
  MixedPrecision mixed_precision = MixedPrecision::no;
  double initial_loss_scale = 65536.0;
  int64_t loss_scale_window = 1000;
  double min_loss_scale = 1.0;
  int64_t max_consecutive_skips = 20;
  bool allow_tf32 = true;
};

void describe(config::Section& section, PrecisionConfig& c);
/// Throws base::ConfigError when the initial scale is below the least one.
void validate(const PrecisionConfig& c);

/// The dynamic scale of torch.amp.GradScaler: halved when a step's gradients overflow (that step is skipped), doubled
/// after loss_scale_window applied steps in a row. Without fp16 the scale stays 1.
class LossScaler {
 public:
  /// `skip_nonfinite`: how many steps in a row may be skipped without fp16.
  explicit LossScaler(const PrecisionConfig& config, int64_t skip_nonfinite = 0);

  /// The loss is multiplied by it before backward, gradients are divided by it before clipping.
  [[nodiscard]] double scale() const { return state_.scale; }
  /// Whether overflow is expected now and then (fp16).
  [[nodiscard]] bool dynamic() const { return rule_.dynamic; }
  [[nodiscard]] const LossScaleRule& rule() const { return rule_; }

  /// Call once per optimizer step with the agreed verdict of all ranks. Throws base::NumericsError (exit code 6) when
  /// the scale cannot be halved without falling below min_loss_scale, after max_consecutive_skips skipped steps in a
  /// row, and without fp16 after skip_nonfinite of them.
  void update(bool found_inf);

  [[nodiscard]] const LossScaleState& state() const { return state_; }
  void set_state(const LossScaleState& state) { state_ = state; }

 private:
  LossScaleRule rule_;
  LossScaleState state_;
};

}  // namespace ddpm::optim
