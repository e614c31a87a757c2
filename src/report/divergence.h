// A loss that has left its lowest level for good, and one that is no number any more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace ddpm::report {

/// Above so many times its lowest level a loss is far from it.
inline constexpr double kFarAbove = 2.0;

struct Divergence {
  int64_t step = 0;     ///< from about this one on the loss lies above its lowest level
  double lowest = 0.0;  ///< the lowest median of a window of numbers before
  double level = 0.0;   ///< the lowest median of a window of the last sixth
};

/// The numbers are cut into windows of equal count, a twenty-fourth of all and at least 8. They have diverged where the
/// medians of all windows of the last sixth, of two at least, lie above kFarAbove times the lowest median before, and
/// further above it than six standard errors of the medians, by the scatter of the numbers' logarithms within windows:
/// the lowest of many windows of noise is low by chance. A short spike moves no median, and a loss that has come back
/// has a low one. None of numbers that are not positive, and of too few. Numbers that are not finite are left out.
std::optional<Divergence> divergence_of(std::span<const int64_t> steps, std::span<const double> values);

/// Numbers at the end that are not finite.
struct Unfinite {
  int64_t count = 0;
  int64_t first = 0;                        ///< step of the first of them
  std::optional<int64_t> last_finite = {};  ///< step of the number before it
};
Unfinite unfinite_end(std::span<const int64_t> steps, std::span<const double> values);

}  // namespace ddpm::report
