#include "generate/character_weights.h"

#include <cmath>

namespace ddpm::generate {

std::vector<double> log_bessel_ratios(double x, std::size_t first) {
  const double smallest = std::log(1e-18);
  const std::size_t highest = first + static_cast<std::size_t>(60.0 + 10.0 * std::sqrt(x) + x);
  std::vector<double> quotients(highest + 1);  // I_n / I_(n-1)
  double above = 0.0;
  for (std::size_t n = highest; n > first; --n) {
    above = 1.0 / (2.0 * static_cast<double>(n) / x + above);
    quotients[n] = above;
  }
  std::vector<double> logarithms = {0.0};
  for (std::size_t n = first + 1; n <= highest && logarithms.back() > smallest; ++n) {
    logarithms.push_back(logarithms.back() + std::log(quotients[n]));
  }
  return logarithms;
}

}  // namespace ddpm::generate
