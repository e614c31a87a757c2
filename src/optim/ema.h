// Moving averages of the weights: exponential ones with the warm-up of diffusers' EMAModel (use_ema_warmup), and power
// functions of time (Karras et al. 2024, arXiv 2312.02696, equation 2), from which averages of any length can be made
// after training (optim/post_hoc.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/schema.h"

namespace ddpm::optim {

/// The [ema] section.
struct EmaConfig {
  bool enabled = true;
  double inv_gamma = 1.0;
  double power = 0.75;
  std::vector<double> max_decay = {0.9999};   ///< one average each
  std::vector<double> relative_lengths = {};  ///< one power function each, after those

  /// Number of averages kept: 0 when off.
  [[nodiscard]] std::size_t count() const { return enabled ? max_decay.size() + relative_lengths.size() : 0; }
};

void describe(config::Section& section, EmaConfig& c);
/// Throws base::ConfigError when max_decay is empty, and for two relative lengths that differ by less than 1 %.
void validate(const EmaConfig& c);

/// Decay of average `index` after optimizer update `applied_step` (1 for the first): 0 for the first, which takes the
/// weights but for rounding, then min(1 - (1 + (applied_step - 1) / inv_gamma)^-power, max_decay); of a power function
/// (1 - 1 / applied_step)^(gamma + 1), with the gamma of its relative length.
double ema_decay(const EmaConfig& config, std::size_t index, int64_t applied_step);

/// average -= (1 - decay) · (average - parameter). Equal lengths, no overlap; like adamw_update, bits do not depend on
/// where the range is cut. Called right after adamw_update on blocks that fit the cache, it finds the weights there.
void ema_update(double decay, std::span<float> average, std::span<const float> parameter);

}  // namespace ddpm::optim
