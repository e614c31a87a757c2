#include "generate/su2.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "generate/character_weights.h"

namespace ddpm::generate {
namespace {

using Element = Su2Group::Element;

constexpr double kTurn = 2.0 * std::numbers::pi;
/// Below it, uniform elements are accepted often enough, and Kennedy's and Pendleton's draw seldom is.
constexpr double kWeak = 1.0;
/// Probabilities that differ less from 1 are taken for 1.
const double kLeast = std::log(1e-16);

}  // namespace

Element operator*(const Element& a, const Element& b) {
  // (w + i x.sigma)(w' + i x'.sigma) = w w' - x.x' + i (w x' + w' x - x cross x').sigma
  return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w - a.y * b.z + a.z * b.y,
          a.w * b.y + a.y * b.w - a.z * b.x + a.x * b.z, a.w * b.z + a.z * b.w - a.x * b.y + a.y * b.x};
}

Su2Group::Su2Group(double beta) : beta_(beta) {
  if (beta > 0.0) logs_ = log_bessel_ratios(beta, 1);
}

/// Uniform on the sphere of unit quaternions: Marsaglia, Annals of Mathematical Statistics 43, 645 (1972), by angles.
Element Su2Group::haar(Draws& draws) {
  const double part = draws.uniform();
  const double first = kTurn * draws.uniform();
  const double second = kTurn * draws.uniform();
  const double a = std::sqrt(1.0 - part);
  const double b = std::sqrt(part);
  return {a * std::cos(first), a * std::sin(first), b * std::cos(second), b * std::sin(second)};
}

/// The sum of the links is a multiple of one element, whose inverse is wanted: (cos a, n sin a) to the power p is
/// (cos p a, n sin p a).
Element Su2Group::aligning(const std::array<Element, 4>& links, double power) {
  Element sum{.w = 0.0};
  for (const Element& link : links) {
    sum = {.w = sum.w + link.w, .x = sum.x + link.x, .y = sum.y + link.y, .z = sum.z + link.z};
  }
  const double flat = std::sqrt(sum.x * sum.x + sum.y * sum.y + sum.z * sum.z);
  if (flat == 0.0) return one();
  const double angle = power * std::atan2(flat, sum.w);
  const double scale = -std::sin(angle) / flat;
  return {std::cos(angle), scale * sum.x, scale * sum.y, scale * sum.z};
}

/// w = Tr U / 2 with the density sqrt(1 - w²) exp(beta w).
double Su2Group::plaquette_trace(Draws& draws) const {
  while (beta_ < kWeak) {
    const double w = haar(draws).w;
    if (draws.uniform() < std::exp(beta_ * (w - 1.0))) return w;
  }
  while (true) {
    const double c = std::cos(kTurn * draws.uniform());
    const double below_one = -(std::log(draws.uniform()) + c * c * std::log(draws.uniform())) / beta_;
    const double u = draws.uniform();
    if (u * u <= 1.0 - below_one / 2.0) return 1.0 - below_one;
  }
}

Element Su2Group::plaquette(Draws& draws) const {
  const double w = plaquette_trace(draws);
  const double length = std::sqrt(std::max(0.0, 1.0 - w * w));
  const double z = 2.0 * draws.uniform() - 1.0;
  const double angle = kTurn * draws.uniform();
  const double flat = length * std::sqrt(1.0 - z * z);
  return {w, flat * std::cos(angle), flat * std::sin(angle), length * z};
}

bool Su2Group::closes(const Element& g, std::size_t m, Draws& draws) const {
  const auto power = static_cast<double>(m);
  if (logs_.size() < 2 || power * logs_[1] < kLeast) return true;
  // sin(n phi) / sin(phi) by Chebyshev's recurrence, which holds for phi = 0, too.
  double before = 0.0;
  double chebyshev = 1.0;
  double sum = 0.0;
  double sum_at_one = 0.0;
  for (std::size_t n = 1; n <= logs_.size() && power * logs_[n - 1] >= kLeast; ++n) {
    const auto order = static_cast<double>(n);
    const double weight = order * std::exp(power * logs_[n - 1]);
    sum += weight * chebyshev;
    sum_at_one += weight * order;
    before = std::exchange(chebyshev, 2.0 * g.w * chebyshev - before);
  }
  return draws.uniform() * sum_at_one < sum;
}

std::vector<data::Variable> Su2Group::variables() {
  std::vector<data::Variable> variables;
  for (const char* link : {"right", "down"}) {
    for (const char* part : {"w", "x", "y", "z"}) {
      variables.push_back({.name = fmt::format("{} {}", link, part), .unit = "", .transform = {}});
    }
  }
  return variables;
}

std::array<double, 4> Su2Group::numbers(const Element& link) {
  const double length = std::sqrt(link.w * link.w + link.x * link.x + link.y * link.y + link.z * link.z);
  return {link.w / length, link.x / length, link.y / length, link.z / length};
}

}  // namespace ddpm::generate
