// The middle of repeated measurements, and how far they lie apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ddpm::bench {

struct Spread {
  double median = 0.0;
  double lowest = 0.0;
  double highest = 0.0;
};

/// Summarizes at least one value.
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  return {median, values.front(), values.back()};
}

}  // namespace ddpm::bench
