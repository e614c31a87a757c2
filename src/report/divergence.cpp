#include "report/divergence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "report/stats.h"

namespace ddpm::report {
namespace {

/// Numbers one after the other, of those that are finite.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
  double median = 0.0;
};

/// Windows of `width` numbers; those that are left over belong to the first.
std::vector<Window> windows_of(std::span<const double> values, std::size_t width) {
  std::vector<Window> windows;
  const std::size_t count = values.size() / width;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = values.size() - (count - 1 - i) * width;
    const std::size_t begin = i == 0 ? 0 : end - width;
    windows.push_back({begin, end, median_of(values.subspan(begin, end - begin))});
  }
  return windows;
}

/// The standard error of a window's median on the scale of logarithms, as for normal numbers, from the median
/// deviation of all numbers from their windows' medians.
double error_of_median(std::span<const double> values, std::span<const Window> windows, std::size_t width) {
  constexpr double kDeviations = 1.4826;  // standard deviations of normal numbers per median deviation
  constexpr double kOfMedian = 1.2533;    // error of the median per error of the mean
  std::vector<double> away;
  for (const Window& window : windows) {
    for (std::size_t i = window.begin; i < window.end; ++i)
      away.push_back(std::abs(std::log(values[i] / window.median)));
  }
  return kOfMedian * kDeviations * median_of(away) / std::sqrt(static_cast<double>(width));
}

}  // namespace

std::optional<Divergence> divergence_of(std::span<const int64_t> steps, std::span<const double> values) {
  constexpr std::size_t kLeastWidth = 8;
  constexpr std::size_t kWindows = 24;
  constexpr std::size_t kLeastRecent = 2;
  constexpr std::size_t kRecentPart = 6;
  constexpr double kErrors = 6.0;
  std::vector<int64_t> at;
  std::vector<double> finite;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    if (values[i] <= 0.0) return std::nullopt;
    at.push_back(steps[i]);
    finite.push_back(values[i]);
  }
  const std::size_t width = std::max(kLeastWidth, finite.size() / kWindows);
  const std::vector<Window> windows = windows_of(finite, width);
  const std::size_t recent_count = std::max(kLeastRecent, windows.size() / kRecentPart);
  if (windows.size() <= recent_count) return std::nullopt;
  const auto recent = std::span(windows).last(recent_count);
  const auto before = std::span(windows).first(windows.size() - recent_count);
  const double lowest = std::ranges::min_element(before, {}, &Window::median)->median;
  const double level = std::ranges::min_element(recent, {}, &Window::median)->median;
  const double error = std::hypot(error_of_median(finite, before, width), error_of_median(finite, recent, width));
  if (std::log(level / lowest) <= std::max(std::log(kFarAbove), kErrors * error)) return std::nullopt;
  const double middle = std::sqrt(lowest) * std::sqrt(level);
  std::size_t left = before.size() - 1;
  while (before[left].median > middle) --left;
  std::size_t last = windows[left + 1].end - 1;
  while (finite[last] > middle) --last;
  return Divergence{.step = at[last + 1], .lowest = lowest, .level = level};
}

Unfinite unfinite_end(std::span<const int64_t> steps, std::span<const double> values) {
  std::size_t first = values.size();
  while (first > 0 && !std::isfinite(values[first - 1])) --first;
  if (first == values.size()) return {};
  return {.count = static_cast<int64_t>(values.size() - first),
          .first = steps[first],
          .last_finite = first > 0 ? std::optional(steps[first - 1]) : std::nullopt};
}

}  // namespace ddpm::report
