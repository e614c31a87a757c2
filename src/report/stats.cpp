#include "report/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/probability.h"

namespace ddpm::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The finite numbers with their steps.
struct Points {
  std::vector<double> x;
  std::vector<double> y;
};

Points finite_points(std::span<const int64_t> steps, std::span<const double> values) {
  Points points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    points.x.push_back(static_cast<double>(steps[i]));
    points.y.push_back(values[i]);
  }
  return points;
}

double average(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// The place of the i-th of `count` evenly chosen ones among `size`, both ends among them.
std::size_t chosen(std::size_t i, std::size_t count, std::size_t size) {
  return count < 2 ? size - 1 : i * (size - 1) / (count - 1);
}

Direction direction_of(const Interval& change) {
  constexpr double kFlat = 0.05;
  constexpr double kSlight = 0.005;
  if (change.high < 0.0 && change.value <= -kSlight) return Direction::falling;
  if (change.low > 0.0 && change.value >= kSlight) return Direction::rising;
  return change.low > -kFlat && change.high < kFlat ? Direction::flat : Direction::unknown;
}

/// Standard errors on either side of a 95 % interval, by Student's t.
double half_width(std::size_t degrees) { return base::student_quantile(0.95, static_cast<double>(degrees)); }

/// The line through what is left without the eighth of `y` that lies furthest from its median.
std::optional<Line> line_without_far_ones(std::span<const double> x, std::span<const double> y) {
  const double middle = median_of(y);
  std::vector<std::size_t> places(y.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t i) { return std::abs(y[i] - middle); });
  places.resize(y.size() - y.size() / 8);
  std::ranges::sort(places);
  Points near;
  for (const std::size_t i : places) {
    near.x.push_back(x[i]);
    near.y.push_back(y[i]);
  }
  return fit_line(near.x, near.y);
}

/// Whether it is a spike that makes the line through the means of blocks rise, or fall: the medians of all but a few do
/// not, or have come half the way back from the rise.
bool is_of_spike(const Line& means, std::span<const double> x, const std::vector<double>& medians) {
  constexpr double kLeast = 0.25;
  const auto line = line_without_far_ones(x, medians);
  if (!line || line->slope / means.slope < kLeast) return true;
  const auto [least, most] = std::ranges::minmax(medians);
  return means.slope > 0.0 && medians.back() - least < 0.5 * (most - least);
}

}  // namespace

std::optional<Interval> mean_of(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const double mean = average(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double n = static_cast<double>(values.size());
  const double half = half_width(values.size() - 1) * std::sqrt(squares / (n - 1.0) / n);
  return Interval{mean, mean - half, mean + half};
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::erase_if(sorted, [](double value) { return !std::isfinite(value); });
  if (sorted.empty()) return kNaN;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : 0.5 * (sorted[middle - 1] + sorted[middle]);
}

double Line::half_at(double x) const {
  const double n = static_cast<double>(count);
  const double away = x - x_mean;
  return half_width(count - 2) * deviation * std::sqrt(1.0 / n + away * away / x_squares);
}

std::optional<Line> fit_line(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 3) return std::nullopt;
  Line line{.x_mean = average(x), .y_mean = average(y), .count = x.size()};
  double products = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    line.x_squares += (x[i] - line.x_mean) * (x[i] - line.x_mean);
    products += (x[i] - line.x_mean) * (y[i] - line.y_mean);
  }
  if (!(line.x_squares > 0.0)) return std::nullopt;
  line.slope = products / line.x_squares;
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += (y[i] - line.at(x[i])) * (y[i] - line.at(x[i]));
  line.deviation = std::sqrt(squares / static_cast<double>(x.size() - 2));
  line.slope_half = half_width(x.size() - 2) * line.deviation / std::sqrt(line.x_squares);
  return line;
}

std::optional<Trend> trend_of(std::span<const int64_t> steps, std::span<const double> values, double share) {
  constexpr std::size_t kMostBlocks = 16;
  constexpr std::size_t kLeastBlocks = 4;
  const auto part = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const std::size_t left = values.size() - std::min(values.size(), std::max(part, kMostBlocks));
  const Points points = finite_points(steps.subspan(left), values.subspan(left));
  const std::size_t blocks = std::min(kMostBlocks, points.y.size());
  if (blocks < kLeastBlocks) return std::nullopt;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> medians;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t begin = i * points.y.size() / blocks;
    const std::size_t count = (i + 1) * points.y.size() / blocks - begin;
    x.push_back(average(std::span(points.x).subspan(begin, count)));
    y.push_back(average(std::span(points.y).subspan(begin, count)));
    medians.push_back(median_of(std::span(points.y).subspan(begin, count)));
  }
  const auto line = fit_line(x, y);
  const auto level = mean_of(y);
  if (!line || !level || line->y_mean == 0.0) return std::nullopt;
  const double scale = (x.back() - x.front()) / std::abs(line->y_mean);
  Trend trend{.first = static_cast<int64_t>(points.x.front()),
              .last = static_cast<int64_t>(points.x.back()),
              .blocks = blocks,
              .change = {line->slope * scale, (line->slope - line->slope_half) * scale,
                         (line->slope + line->slope_half) * scale},
              .level = *level};
  trend.direction = direction_of(trend.change);
  const bool moves = trend.direction == Direction::falling || trend.direction == Direction::rising;
  if (moves && is_of_spike(*line, x, medians)) trend.direction = Direction::unknown;
  return trend;
}

Curve thinned(std::span<const int64_t> steps, std::span<const double> values, std::size_t points) {
  Curve curve;
  const Points all = finite_points(steps, values);
  const std::size_t count = std::min(points, all.y.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = chosen(i, count, all.y.size());
    curve.x.push_back(all.x[at]);
    curve.y.push_back(all.y[at]);
  }
  return curve;
}

Curve smoothed(std::span<const int64_t> steps, std::span<const double> values, std::size_t points,
               const Bounds& bounds) {
  constexpr std::size_t kLeastWindow = 8;
  constexpr std::size_t kWindows = 40;
  const Points all = finite_points(steps, values);
  const std::size_t size = all.y.size();
  const std::size_t window = std::max(kLeastWindow, size / kWindows);
  if (size < kLeastWindow) return thinned(steps, values, points);
  Curve curve;
  const std::size_t count = std::min(points, size);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = chosen(i, count, size);
    const std::size_t begin = std::min(at - std::min(at, window / 2), size - window);
    const auto line = fit_line(std::span(all.x).subspan(begin, window), std::span(all.y).subspan(begin, window));
    if (!line) continue;
    const double half = line->half_at(all.x[at]);
    curve.x.push_back(all.x[at]);
    const double mean = line->at(all.x[at]);
    const auto within = [&](double y) { return std::clamp(y, bounds.least, bounds.most); };
    curve.y.push_back(within(mean));
    curve.low.push_back(within(mean - half));
    curve.high.push_back(within(mean + half));
  }
  return curve;
}

}  // namespace ddpm::report
