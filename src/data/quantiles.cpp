#include "data/quantiles.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/probability.h"

namespace ddpm::data {

std::vector<double> quantiles_of(std::vector<float>& values) {
  DDPM_CHECK(!values.empty(), "quantiles of no value");
  std::ranges::sort(values);
  std::vector<double> quantiles;
  const double last = static_cast<double>(values.size() - 1);
  for (std::size_t k = 0; k < kQuantiles; ++k) {
    const double place = last * static_cast<double>(k) / static_cast<double>(kQuantiles - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double share = place - static_cast<double>(below);
    quantiles.push_back((1.0 - share) * values[below] + share * values[above]);
  }
  return quantiles;
}

Transform quantile_map(const std::vector<double>& quantiles, bool uniform) {
  const double steps = static_cast<double>(quantiles.size() - 1);
  const auto target = [&](std::size_t k) {
    const double p = static_cast<double>(k) / steps;
    return uniform ? 2.0 * p - 1.0 : base::normal_quantile(std::clamp(p, 0.5 / steps, 1.0 - 0.5 / steps));
  };
  std::vector<double> from;
  std::vector<double> to;
  for (std::size_t first = 0; first < quantiles.size();) {
    std::size_t end = first;
    double sum = 0.0;
    const auto value = static_cast<float>(quantiles[first]);
    while (end < quantiles.size() && static_cast<float>(quantiles[end]) == value) sum += target(end++);
    from.push_back(value);
    to.push_back(sum / static_cast<double>(end - first));
    first = end;
  }
  if (from.size() == 1) return Normalization{.scale = 1.0, .offset = -from.front()};
  return {std::move(from), std::move(to)};
}

}  // namespace ddpm::data
