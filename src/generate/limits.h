// What a kind of set can be asked for. Constructors of generators refuse everything else, and `ddpm data generate` asks
// the same functions, in the words of its user. All throw ConfigError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "generate/couplings.h"

namespace ddpm::generate {

/// The most numbers of a sample, over all channels: 256 MiB of float32.
inline constexpr int64_t kMostElements = int64_t{1} << 26;
/// The most values of a coupling, which make classes.
inline constexpr std::size_t kMostCouplings = 1000;

/// The grids that a kind makes.
struct GridLimits {
  int64_t least;          ///< shortest side
  int64_t most;           ///< longest side
  std::size_t most_axes;  ///< 2: height and width; 3: of volumes the depth before
  int64_t channels;       ///< numbers at each point
};

/// Refuses `sides` that a kind cannot make. `given`: what the user wrote for them.
void expect_grid(const std::vector<int64_t>& sides, const GridLimits& limits, const std::string& given);
/// Returns `sides`.
std::vector<int64_t> checked_grid(std::vector<int64_t> sides, const GridLimits& limits);

/// Refuses a value outside the coupling's range, and a number outside the count's.
void expect_value(double value, const Coupling& coupling);
void expect_number(int64_t number, const Count& count);
/// Refuses no value, too many, and any outside the coupling's range.
void expect_values(const std::vector<double>& values, const Coupling& coupling);
/// Returns `values`.
std::vector<double> checked_values(std::vector<double> values, const Coupling& coupling);

}  // namespace ddpm::generate
