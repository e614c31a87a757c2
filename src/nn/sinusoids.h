// The frequencies of a time step's features, without LibTorch: w_j = 10000^(-j / (half - freq_shift)), j < half.
#pragma once

#include <cmath>
#include <cstdint>

namespace ddpm::nn {

inline constexpr double kLongestPeriod = 10000.0;

/// Whether all w_j are finite in float32. They grow with j where freq_shift > width / 2, which diffusers computes as it
/// stands, and w_0 is not a number where freq_shift = width / 2.
inline bool has_finite_sinusoids(int64_t width, int64_t freq_shift) {
  const int64_t half = width / 2;
  if (half == 0) return true;  // the only feature is the zero of an odd width
  const double last = static_cast<double>(half - 1) / static_cast<double>(half - freq_shift);
  return half != freq_shift && std::isfinite(std::exp(static_cast<float>(last * -std::log(kLongestPeriod))));
}

}  // namespace ddpm::nn
