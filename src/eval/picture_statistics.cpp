#include "eval/picture_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace ddpm::eval {
namespace {

/// A picture's mean, and the means of the second to fourth powers of its values less that mean: powers of the values
/// themselves would lose the digits of a small deviation from a large mean.
std::array<double, 4> central_means(std::span<const float> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0.0;  // from the first value, so that equal values have their mean exactly
  for (const float value : values) sum += static_cast<double>(value) - static_cast<double>(values.front());
  const double mean = static_cast<double>(values.front()) + sum / count;
  std::array<double, 4> means{};
  for (const float value : values) {
    const double off = static_cast<double>(value) - mean;
    double power = off;
    for (std::size_t k = 1; k < means.size(); ++k) means.at(k) += power *= off;
  }
  for (double& each : means) each /= count;
  means[0] = mean;
  return means;
}

/// The means of x - centre and of its second to fourth powers, of a picture with these central_means().
std::array<double, 4> means_about(double centre, std::span<const double> central) {
  const double d = central[0] - centre;
  return {d, central[1] + d * d, central[2] + 3.0 * d * central[1] + d * d * d,
          central[3] + 4.0 * d * central[2] + 6.0 * d * d * central[1] + d * d * d * d};
}

/// Mean, deviation, skewness and kurtosis from the means of powers. Where all values are equal the last two are 0.
std::array<double, 4> moments(std::span<const double> powers) {
  const double m = powers[0];
  const double variance = std::max(powers[1] - m * m, 0.0);
  const double third = powers[2] - 3.0 * m * powers[1] + 2.0 * m * m * m;
  const double fourth = powers[3] - 4.0 * m * powers[2] + 6.0 * m * m * powers[1] - 3.0 * m * m * m * m;
  const double deviation = std::sqrt(variance);
  if (variance <= 0.0) return {m, 0.0, 0.0, 0.0};
  return {m, deviation, third / (variance * deviation), fourth / (variance * variance)};
}

constexpr std::array kMomentNames = {"mean", "deviation", "skewness", "kurtosis"};

}  // namespace

PictureStatistics::PictureStatistics(int64_t channels, const std::vector<int64_t>& sides)
    : channels_(static_cast<std::size_t>(channels)), spectrum_(sides) {
  for (std::size_t first = 1; first <= spectrum_.rings(); first *= 2) {
    bands_.push_back({first - 1, std::min(2 * first - 1, spectrum_.rings())});
  }
  for (std::size_t c = 0; c < channels_; ++c) {
    for (const char* name : kMomentNames) list_.push_back({.name = name, .channel = c});
    for (const auto& [first, end] : bands_) {
      const std::string band = first + 1 == end ? fmt::format("k {}", end) : fmt::format("k {}-{}", first + 1, end);
      list_.push_back({.name = "spectrum", .channel = c, .band = band});
    }
  }
}

void PictureStatistics::measure(std::span<const float> picture, std::span<double> row) {
  const std::size_t pixels = picture.size() / channels_;
  for (std::size_t c = 0; c < channels_; ++c) {
    const std::span<const float> plane = picture.subspan(c * pixels, pixels);
    const std::span<double> out = row.subspan(c * (kMoments + bands_.size()), kMoments + bands_.size());
    std::ranges::copy(central_means(plane), out.begin());
    centred_.assign(plane.begin(), plane.end());
    for (double& value : centred_) value -= out[0];
    const std::span<const double> power = spectrum_.power(centred_);
    for (std::size_t b = 0; b < bands_.size(); ++b) {
      double sum = 0.0;
      double modes = 0.0;
      for (std::size_t ring = bands_[b].first; ring < bands_[b].end; ++ring) {
        sum += static_cast<double>(spectrum_.modes()[ring]) * power[ring];
        modes += static_cast<double>(spectrum_.modes()[ring]);
      }
      out[kMoments + b] = sum / modes;
    }
  }
}

std::vector<double> PictureStatistics::centres_of(std::span<const double> rows) const {
  const std::size_t count = rows.size() / width();
  std::vector<double> centres;
  for (std::size_t place = 0; place < width(); place += width() / channels_) {
    double sum = 0.0;  // from the first picture, so that equal pictures have their mean exactly
    for (std::size_t i = 0; i < count; ++i) sum += rows[i * width() + place] - rows[place];
    centres.push_back(rows[place] + sum / static_cast<double>(count));
  }
  return centres;
}

std::vector<double> PictureStatistics::about(std::span<const double> centres, std::span<const double> rows) const {
  std::vector<double> numbers(rows.begin(), rows.end());
  for (std::size_t first = 0; first < rows.size(); first += width()) {
    for (std::size_t c = 0; c < channels_; ++c) {
      const std::size_t place = first + c * (width() / channels_);
      std::ranges::copy(means_about(centres[c], rows.subspan(place, kMoments)),
                        numbers.begin() + static_cast<std::ptrdiff_t>(place));
    }
  }
  return numbers;
}

PictureStatistics::UnitSums PictureStatistics::sums_of(std::span<const double> rows, const SampleUnits& units) const {
  UnitSums result{.sums = std::vector<double>(units.conditions.size() * width()),
                  .members = std::vector<int64_t>(units.conditions.size())};
  for (std::size_t i = 0; i < units.unit_of.size(); ++i) {
    const auto unit = static_cast<std::size_t>(units.unit_of[i]);
    for (std::size_t k = 0; k < width(); ++k) result.sums[unit * width() + k] += rows[i * width() + k];
    ++result.members[unit];
  }
  return result;
}

std::vector<double> PictureStatistics::statistics(std::span<const double> mean_row,
                                                  std::span<const double> centres) const {
  std::vector<double> values;
  for (std::size_t c = 0; c < channels_; ++c) {
    const auto own = mean_row.subspan(c * (kMoments + bands_.size()), kMoments + bands_.size());
    std::array<double, kMoments> about_centre = moments(own);
    about_centre[0] += centres[c];
    std::ranges::copy(about_centre, std::back_inserter(values));
    values.insert(values.end(), own.begin() + kMoments, own.end());
  }
  return values;
}

std::vector<LeftOut> PictureStatistics::left_out(std::span<const double> rows, const SampleUnits& units) const {
  const auto count = static_cast<int64_t>(rows.size() / width());
  const std::vector<double> centres = centres_of(rows);
  const std::vector<double> numbers = about(centres, rows);
  std::vector<double> sums(width());
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[i % width()] += numbers[i];
  const auto means = [&](std::span<const double> less, int64_t n) {
    std::vector<double> mean = sums;
    for (std::size_t k = 0; k < mean.size(); ++k) {
      mean[k] = (mean[k] - (less.empty() ? 0.0 : less[k])) / static_cast<double>(n);
    }
    return mean;
  };
  std::vector<LeftOut> result;
  for (const double whole : statistics(means({}, count), centres)) result.push_back({.whole = whole});
  const UnitSums of_units = units.grouped() ? sums_of(numbers, units) : UnitSums{};
  for (int64_t unit = 0; units.count(count) > 1 && unit < units.count(count); ++unit) {
    const std::span<const double> all = units.grouped() ? of_units.sums : numbers;
    const std::span<const double> less = all.subspan(static_cast<std::size_t>(unit) * width(), width());
    const int64_t members = units.grouped() ? of_units.members[static_cast<std::size_t>(unit)] : 1;
    const std::vector<double> each = statistics(means(less, count - members), centres);
    for (std::size_t k = 0; k < each.size(); ++k) result[k].without.push_back(each[k]);
  }
  return result;
}

}  // namespace ddpm::eval
