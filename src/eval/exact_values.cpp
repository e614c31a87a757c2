#include "eval/exact_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "generate/character_weights.h"

namespace ddpm::eval {
namespace {

/// I_n(beta) / I_first(beta) to the power `exponent` for n = first, first + 1 ...
class BesselPowers {
 public:
  BesselPowers(double beta, std::size_t first)
      : logs_(beta > 0.0 ? generate::log_bessel_ratios(beta, first) : std::vector<double>{0.0}) {}
  [[nodiscard]] std::size_t size() const { return logs_.size(); }
  [[nodiscard]] double power(std::size_t place, int64_t exponent) const {
    if (exponent == 0) return 1.0;
    return place < logs_.size() ? std::exp(static_cast<double>(exponent) * logs_[place]) : 0.0;
  }

 private:
  std::vector<double> logs_;
};

/// Integrals of exp(beta (cos a - 1)) times cos(k a), -a sin(k a) and -a² cos(k a) over a turn: c(k), c'(k), c''(k).
std::array<double, 3> charge_integrals(double beta, int k) {
  constexpr int kSteps = 20'000;  // steps of Simpson's rule over half a turn, since all three are even in a
  std::array<double, 3> sums{};
  for (int i = 0; i <= kSteps; ++i) {
    const double a = std::numbers::pi * i / kSteps;
    const double simpson = i == 0 || i == kSteps ? 1.0 : (i % 2 == 1 ? 4.0 : 2.0);
    const double weight = simpson * std::exp(beta * (std::cos(a) - 1.0));
    sums[0] += weight * std::cos(k * a);
    sums[1] -= weight * a * std::sin(k * a);
    sums[2] -= weight * a * a * std::cos(k * a);
  }
  return sums;
}

/// ln of the sum of sign · exp(logarithm).
long double log_of_sum(const std::array<long double, 4>& logs, const std::array<long double, 4>& signs) {
  const long double largest = std::ranges::max(logs);
  long double sum = 0.0L;
  for (std::size_t i = 0; i < logs.size(); ++i) sum += signs[i] * std::exp(logs[i] - largest);
  return largest + std::log(sum);
}

long double log_cosh(long double x) { return std::abs(x) + std::log1p(std::exp(-2.0L * std::abs(x))); }
long double log_sinh(long double x) { return std::abs(x) + std::log1p(-std::exp(-2.0L * std::abs(x))); }

long double kaufman_log_z(int64_t height, int64_t width, long double beta) {
  std::array<long double, 4> logs{};  // products of 2 cosh and 2 sinh over odd, then over even waves
  long double first = 0.0L;
  for (int64_t order = 0; order < 2 * width; ++order) {
    const long double wave =
        std::cos(static_cast<long double>(order) * std::numbers::pi_v<long double> / static_cast<long double>(width));
    const long double c = std::cosh(2.0L * beta);
    const long double gamma = order == 0 ? 2.0L * beta + std::log(std::tanh(beta))
                                         : std::acosh(std::max(c * c / std::sinh(2.0L * beta) - wave, 1.0L));
    const long double half = static_cast<long double>(height) * gamma / 2.0L;
    if (order == 0) first = half;
    logs.at(order % 2 == 1 ? 0 : 2) += log_cosh(half);
    logs.at(order % 2 == 1 ? 1 : 3) += log_sinh(half);
  }
  const auto sites = static_cast<long double>(height * width);
  return sites / 2.0L * std::log(2.0L * std::sinh(2.0L * beta)) - std::numbers::ln2_v<long double> +
         log_of_sum(logs, {1.0L, 1.0L, 1.0L, first < 0.0L ? -1.0L : 1.0L});
}

}  // namespace

double u1_loop(double beta, int64_t plaquettes, int64_t area) {
  const BesselPowers ratio(beta, 0);
  double loop = 0.0;
  double all = 0.0;
  for (std::size_t k = 0; k <= ratio.size(); ++k) {
    // k and -k - 1 are pairs of neighbours (k, k + 1) and (-k - 1, -k), which have the same two numbers.
    loop += ratio.power(k, plaquettes - area) * ratio.power(k + 1, area) +
            ratio.power(k + 1, plaquettes - area) * ratio.power(k, area);
    all += (k == 0 ? 1.0 : 2.0) * ratio.power(k, plaquettes);
  }
  return loop / all;
}

double u1_charge_squared(double beta, int64_t plaquettes) {
  const auto n = static_cast<double>(plaquettes);
  const double scale = charge_integrals(beta, 0)[0];
  double all = 0.0;
  double curvature = 0.0;  // Z''(0) times (2 pi)²
  for (int k = 0; k < 100; ++k) {
    const auto [c, slope, bend] = charge_integrals(beta, k);
    const double weight = k == 0 ? 1.0 : 2.0;
    const double x = c / scale;
    if (k > 0 && std::pow(std::abs(x), n - 2.0) < 1e-20) break;
    all += weight * std::pow(x, n);
    curvature += weight * (n * std::pow(x, n - 1.0) * bend / scale +
                           n * (n - 1.0) * std::pow(x, n - 2.0) * (slope / scale) * (slope / scale));
  }
  return std::max(0.0, -curvature / (4.0 * std::numbers::pi * std::numbers::pi) / all);
}

double su2_loop(double beta, int64_t plaquettes, int64_t area) {
  const BesselPowers ratio(beta, 1);  // place p is n = p + 1
  double loop = 0.0;
  double all = 0.0;
  for (std::size_t p = 0; p <= ratio.size(); ++p) {
    const auto n = static_cast<double>(p + 1);
    const double outside = ratio.power(p, plaquettes - area) / n;
    if (p > 0) loop += 0.5 * (n - 1.0) * ratio.power(p - 1, area) * outside;
    loop += 0.5 * (n + 1.0) * ratio.power(p + 1, area) * outside;
    all += ratio.power(p, plaquettes);
  }
  return loop / all;
}

double u1_loop_limit(double beta, int64_t area) { return BesselPowers(beta, 0).power(1, area); }
double su2_loop_limit(double beta, int64_t area) { return BesselPowers(beta, 1).power(1, area); }

double ising_energy(int64_t height, int64_t width, double beta) {
  if (beta == 0.0) return 0.0;
  // The difference of long doubles loses few of their digits: ln Z grows with the sites, and so does its slope.
  const long double step = 1e-5L * std::min(1.0L, static_cast<long double>(beta));
  const long double slope =
      (kaufman_log_z(height, width, beta + step) - kaufman_log_z(height, width, beta - step)) / (2.0L * step);
  return static_cast<double>(-slope / static_cast<long double>(height * width));
}

double onsager_energy(double beta) {
  if (beta == 0.0) return 0.0;
  const double t = std::tanh(2.0 * beta);
  const double c = std::cosh(2.0 * beta);
  const double modulus = 2.0 * std::sinh(2.0 * beta) / (c * c);
  const double factor = 2.0 * t * t - 1.0;  // 0 at the critical point, where the integral is infinite
  const double integral = std::abs(factor) < 1e-12 ? 0.0 : factor * std::comp_ellint_1(std::min(modulus, 1.0 - 1e-16));
  return -(1.0 + 2.0 / std::numbers::pi * integral) / t;
}

double spontaneous_magnetisation(double beta) {
  const double s = std::sinh(2.0 * beta);
  return s > 1.0 ? std::pow(1.0 - std::pow(s, -4.0), 0.125) : 0.0;
}

}  // namespace ddpm::eval
