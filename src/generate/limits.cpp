#include "generate/limits.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::generate {

using base::ConfigError;

void expect_grid(const std::vector<int64_t>& sides, const GridLimits& limits, const std::string& given) {
  if (sides.size() < 2 || sides.size() > limits.most_axes) {
    throw ConfigError("--size {}: {} sides, wanted {}", given, sides.size(),
                      limits.most_axes == 2 ? "height and width" : "height and width, or depth, height and width");
  }
  int64_t elements = limits.channels;
  for (const int64_t side : sides) {
    if (side < limits.least || side > limits.most) {
      throw ConfigError("--size {}: a side of {}, wanted {} to {}", given, side, limits.least, limits.most);
    }
    elements *= side;
    if (elements > kMostElements) {
      throw ConfigError("--size {}: more than {} numbers in a sample", given, kMostElements);
    }
  }
}

std::vector<int64_t> checked_grid(std::vector<int64_t> sides, const GridLimits& limits) {
  expect_grid(sides, limits, fmt::format("{}", fmt::join(sides, "x")));
  return sides;
}

void expect_value(double value, const Coupling& coupling) {
  if (value >= coupling.least && value <= coupling.most) return;
  throw ConfigError("--{} {}: wanted {} to {}", coupling.name, value, coupling.least, coupling.most);
}

void expect_number(int64_t number, const Count& count) {
  if (number >= count.least && number <= count.most) return;
  throw ConfigError("--{} {}: wanted {} to {}", count.name, number, count.least, count.most);
}

void expect_values(const std::vector<double>& values, const Coupling& coupling) {
  if (values.empty()) throw ConfigError("--{}: no value, wanted one or more", coupling.name);
  if (values.size() > kMostCouplings) throw ConfigError("--{}: more than {} values", coupling.name, kMostCouplings);
  for (const double value : values) expect_value(value, coupling);
}

std::vector<double> checked_values(std::vector<double> values, const Coupling& coupling) {
  expect_values(values, coupling);
  return values;
}

}  // namespace ddpm::generate
