#include "base/probability.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"

namespace ddpm::base {
namespace {

constexpr double kTiny = 1e-300;
constexpr double kAccuracy = 1e-16;
constexpr int kMostTerms = 100'000;

double away_from_zero(double x) { return std::abs(x) < kTiny ? kTiny : x; }

/// A continued fraction by Lentz's algorithm, as Thompson and Barnett changed it (Journal of Computational Physics 64,
/// 490 (1986)).
class ContinuedFraction {
 public:
  explicit ContinuedFraction(double first) : value_(away_from_zero(first)), upper_(value_), lower_(0.0) {}

  /// Takes the next partial numerator and denominator; whether the value has settled.
  bool take(double numerator, double denominator) {
    lower_ = 1.0 / away_from_zero(denominator + numerator * lower_);
    upper_ = away_from_zero(denominator + numerator / upper_);
    const double factor = upper_ * lower_;
    value_ *= factor;
    return std::abs(factor - 1.0) < kAccuracy;
  }
  [[nodiscard]] double value() const { return value_; }

 private:
  double value_, upper_, lower_;
};

/// The regularised incomplete beta function for x below (a + 1) / (a + b + 2), where the fraction converges fast.
double lower_beta(double a, double b, double x) {
  const double scale =
      std::exp(a * std::log(x) + b * std::log1p(-x) - std::lgamma(a) - std::lgamma(b) + std::lgamma(a + b)) / a;
  ContinuedFraction fraction(1.0);
  for (int m = 0; m < kMostTerms; ++m) {
    const double k = m;
    if (m > 0 && fraction.take(k * (b - k) * x / ((a + 2.0 * k - 1.0) * (a + 2.0 * k)), 1.0)) break;
    fraction.take(-(a + k) * (a + b + k) * x / ((a + 2.0 * k) * (a + 2.0 * k + 1.0)), 1.0);
  }
  return scale / fraction.value();
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0.0) return 0.0;
  if (x >= 1.0) return 1.0;
  return x < (a + 1.0) / (a + b + 2.0) ? lower_beta(a, b, x) : 1.0 - lower_beta(b, a, 1.0 - x);
}

}  // namespace

double student_p_value(double t, double degrees) {
  if (std::isnan(t) || std::isnan(degrees)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(t)) return 0.0;
  if (degrees > 1e7) return std::erfc(std::abs(t) / std::sqrt(2.0));
  return incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t));
}

double student_quantile(double level, double degrees) {
  double low = 0.0;
  double high = 1.0;
  while (student_p_value(high, degrees) > 1.0 - level && high < 1e300) high *= 2.0;
  for (int halving = 0; halving < 200; ++halving) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    (student_p_value(middle, degrees) > 1.0 - level ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double normal_quantile(double p) {
  DDPM_CHECK(p > 0.0 && p < 1.0, "the normal distribution's quantile of {}", p);
  // Bisection of Φ(x) = erfc(-x / √2) / 2, which grows: simple, and the same everywhere to the last bits.
  const double q = std::min(p, 1.0 - p);
  double low = -40.0;
  double high = 0.0;
  while (true) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < q ? low : high) = middle;
  }
  return p < 0.5 ? low : p > 0.5 ? -low : 0.0;
}

}  // namespace ddpm::base
