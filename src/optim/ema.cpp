#include "optim/ema.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "optim/flat_kernels.h"
#include "optim/post_hoc.h"

namespace ddpm::optim {

void describe(config::Section& section, EmaConfig& c) {
  section.key("enabled", c.enabled, "Keep moving averages of the weights; the first one becomes the finished model.")
      .key("inv_gamma", c.inv_gamma, "Inverse growth of the decay: 1 - (1 + n / inv_gamma)^-power after n updates.",
           {.min = 0.0, .above_min = true})
      .key("power", c.power, "Exponent of the decay's growth; 2/3 suits runs of a million steps, 3/4 shorter ones.",
           {.min = 0.0, .above_min = true})
      .key("max_decay", c.max_decay, "Where the decay stops growing. An array keeps one average for each value.",
           {.min = 0.0, .max = 1.0, .below_max = true})
      .key(
          "relative_lengths", c.relative_lengths,
          "Averages by power functions of time as in EDM2, one for each value: their standard deviations over the time "
          "trained so far, such as [0.05, 0.1]. From those in checkpoints that are kept (checkpoint.keep_every), "
          "`ddpm checkpoint export --ema-length` makes the average of any length afterwards.",
          {.min = kLeastLength, .max = kGreatestLength});
}

void validate(const EmaConfig& c) {
  if (c.max_decay.empty()) {
    throw base::ConfigError("ema.max_decay is empty; at least one value is wanted, or ema.enabled = false");
  }
  constexpr double kLeastRatio = 1.01;  // nearer ones tell nothing more, and their difference would be magnified
  std::vector<double> lengths = c.relative_lengths;
  std::ranges::sort(lengths);
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    if (lengths[i] >= kLeastRatio * lengths[i - 1]) continue;
    throw base::ConfigError("ema.relative_lengths: {} and {} are too near each other; wanted: 1 % apart at least",
                            lengths[i - 1], lengths[i]);
  }
}

double ema_decay(const EmaConfig& config, std::size_t index, int64_t applied_step) {
  DDPM_CHECK(index < config.count(), "average {} of {}", index, config.count());
  if (applied_step <= 1) return 0.0;
  const double n = static_cast<double>(applied_step - 1);
  if (index >= config.max_decay.size()) {
    const double gamma = power_of_length(config.relative_lengths[index - config.max_decay.size()]);
    return std::pow(n / static_cast<double>(applied_step), gamma + 1.0);
  }
  return std::min(1.0 - std::pow(1.0 + n / config.inv_gamma, -config.power), config.max_decay[index]);
}

void ema_update(double decay, std::span<float> average, std::span<const float> parameter) {
  DDPM_CHECK(average.size() == parameter.size(), "{} averages of {} parameters", average.size(), parameter.size());
  ema_kernel(static_cast<float>(1.0 - decay), average.size(), average.data(), parameter.data());
}

}  // namespace ddpm::optim
