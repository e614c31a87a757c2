#include "generate/u1.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "generate/character_weights.h"

namespace ddpm::generate {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;
/// Below it, uniform angles are accepted often enough, and Best's and Fisher's constants lose digits.
constexpr double kWeak = 0.5;
/// Probabilities that differ less from 1 are taken for 1.
const double kLeast = std::log(1e-16);

}  // namespace

U1Group::U1Group(double beta) : beta_(beta) {
  if (beta > 0.0) logs_ = log_bessel_ratios(beta, 0);
  if (beta < kWeak) return;
  const double tau = 1.0 + std::sqrt(1.0 + 4.0 * beta * beta);
  const double rho = (tau - std::sqrt(2.0 * tau)) / (2.0 * beta);
  r_ = (1.0 + rho * rho) / (2.0 * rho);
}

U1Group::Element U1Group::haar(Draws& draws) { return {kTurn * draws.uniform()}; }

double U1Group::real_trace(Element g) { return std::cos(g.angle); }

U1Group::Element U1Group::aligning(const std::array<Element, 4>& links, double power) {
  double cosines = 0.0;
  double sines = 0.0;
  for (const Element link : links) {
    cosines += std::cos(link.angle);
    sines += std::sin(link.angle);
  }
  return {-power * std::atan2(sines, cosines)};
}

U1Group::Element U1Group::plaquette(Draws& draws) const {
  while (beta_ < kWeak) {
    const Element any = haar(draws);
    if (draws.uniform() < std::exp(beta_ * (std::cos(any.angle) - 1.0))) return any;
  }
  while (true) {
    const double z = std::cos(std::numbers::pi * draws.uniform());
    const double f = (1.0 + r_ * z) / (r_ + z);
    const double c = beta_ * (r_ - f);
    const double u = draws.uniform();
    if (c * (2.0 - c) > u || std::log(c / u) + 1.0 >= c) {
      const double angle = std::acos(std::clamp(f, -1.0, 1.0));
      return {(draws.word() >> 31U) != 0 ? angle : -angle};
    }
  }
}

bool U1Group::closes(Element g, std::size_t m, Draws& draws) const {
  const auto power = static_cast<double>(m);
  if (logs_.size() < 2 || power * logs_[1] < kLeast) return true;
  double sum = 1.0;
  double sum_at_one = 1.0;
  for (std::size_t k = 1; k < logs_.size() && power * logs_[k] >= kLeast; ++k) {
    const double weight = 2.0 * std::exp(power * logs_[k]);
    sum += weight * std::cos(static_cast<double>(k) * g.angle);
    sum_at_one += weight;
  }
  return draws.uniform() * sum_at_one < sum;
}

std::vector<data::Variable> U1Group::variables() {
  const data::Normalization to_one{.scale = 1.0 / std::numbers::pi, .offset = 0.0};
  return {{.name = "angle right", .unit = "rad", .transform = to_one},
          {.name = "angle down", .unit = "rad", .transform = to_one}};
}

std::array<double, 1> U1Group::numbers(Element link) { return {std::remainder(link.angle, kTurn)}; }

std::vector<data::Variable> U1VectorGroup::variables() {
  std::vector<data::Variable> variables;
  for (const char* name : {"cos right", "sin right", "cos down", "sin down"}) {
    variables.push_back({.name = name, .unit = "", .transform = {}});
  }
  return variables;
}

std::array<double, 2> U1VectorGroup::numbers(Element link) { return {std::cos(link.angle), std::sin(link.angle)}; }

}  // namespace ddpm::generate
