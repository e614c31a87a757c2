// Means, trends and moving means of logged numbers, each with its 95 % interval.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ddpm::report {

/// Trends look at this part of what was logged, the last one.
inline constexpr double kRecentShare = 0.3;

/// A number with the ends of its 95 % interval.
struct Interval {
  double value = 0.0;
  double low = 0.0;
  double high = 0.0;
};

/// The mean of the numbers; none of fewer than two.
std::optional<Interval> mean_of(std::span<const double> values);
/// The median of the finite numbers; NaN when there are none.
double median_of(std::span<const double> values);

/// A straight line through points (x, y) by least squares.
struct Line {
  double slope = 0.0;
  double slope_half = 0.0;  ///< half the width of the slope's interval
  double x_mean = 0.0;
  double y_mean = 0.0;
  double deviation = 0.0;  ///< how far y scatters around the line, with n - 2 degrees of freedom
  double x_squares = 0.0;  ///< sum of (x - x_mean)²
  std::size_t count = 0;

  [[nodiscard]] double at(double x) const { return y_mean + slope * (x - x_mean); }
  /// Half the width of the interval of the line at x: t s √(1/n + (x - x̄)²/Σ(x - x̄)²).
  [[nodiscard]] double half_at(double x) const;
};
/// None of fewer than three points, or where all x are one.
std::optional<Line> fit_line(std::span<const double> x, std::span<const double> y);

enum class Direction : uint8_t { falling, flat, rising, unknown };
constexpr auto names_of(Direction /*type*/) {
  return std::to_array<std::string_view>({"falling", "flat", "rising", "unknown"});
}

/// How numbers have changed over their last part.
struct Trend {
  Direction direction = Direction::unknown;
  int64_t first = 0;  ///< step of the first number looked at
  int64_t last = 0;
  std::size_t blocks = 0;
  Interval change;  ///< over that part, as a share of the level in its middle: -0.02 has fallen by 2 %
  Interval level;   ///< the mean of that part
};

/// The trend of the last `share` of the numbers. They are averaged in at most 16 blocks of consecutive ones, since
/// neighbours may depend on each other, and a line is fitted through the blocks: falling or rising when the interval of
/// its slope leaves out 0; flat when it does not, and reaches no further than 5 % of the level; otherwise not known.
/// Nor is it known where a spike makes the slope: the line through the blocks' medians has not a quarter of it, or
/// that of the last block has come half the way back from a rise.
/// Numbers that are not finite are left out; none where fewer than 4 blocks of finite ones are left.
std::optional<Trend> trend_of(std::span<const int64_t> steps, std::span<const double> values, double share);

/// A curve to draw.
struct Curve {
  std::vector<double> x;
  std::vector<double> y;    ///< NaN: nothing there
  std::vector<double> low;  ///< empty: no band
  std::vector<double> high;
};
/// At most `points` points of the numbers as they are, evenly chosen, the last one among them.
Curve thinned(std::span<const int64_t> steps, std::span<const double> values, std::size_t points);
/// What numbers can be.
struct Bounds {
  double least = 0.0;
  double most = std::numeric_limits<double>::infinity();
};
/// The moving mean at most `points` places: of a line that is fitted through a window of the nearest numbers, a
/// fortieth of all and at least 8, which is the window's mean where the place is in its middle. The band is the line's
/// 95 % interval, as far as it lies within `bounds`. Numbers that are not finite are left out.
Curve smoothed(std::span<const int64_t> steps, std::span<const double> values, std::size_t points,
               const Bounds& bounds = {});

}  // namespace ddpm::report
