#include "data/radial_spectrum.h"

#include <algorithm>
#include <cmath>

namespace ddpm::data {
namespace {

std::vector<std::size_t> as_sizes(const std::vector<int64_t>& sides) { return {sides.begin(), sides.end()}; }

/// The squares of the wavenumbers along one axis, in cycles per `longest` pixels. The first `columns` of them.
std::vector<double> squares_along(int64_t side, int64_t longest, int64_t columns) {
  std::vector<double> squares;
  for (int64_t i = 0; i < columns; ++i) {
    // The product comes first: a quotient that double precision holds is not rounded.
    const double wavenumber = static_cast<double>(std::min(i, side - i) * longest) / static_cast<double>(side);
    squares.push_back(wavenumber * wavenumber);
  }
  return squares;
}

/// All sums of one number of `sums` and one of `more`, the latter changing fastest.
std::vector<double> outer_sum(const std::vector<double>& sums, const std::vector<double>& more) {
  std::vector<double> all;
  all.reserve(sums.size() * more.size());
  for (const double a : sums) {
    for (const double b : more) all.push_back(a + b);
  }
  return all;
}

}  // namespace

RadialSpectrum::RadialSpectrum(const std::vector<int64_t>& sides)
    : fourier_(as_sizes(sides)),
      columns_(static_cast<std::size_t>(sides.back() / 2 + 1)),
      even_(sides.back() % 2 == 0),
      modes_(static_cast<std::size_t>(std::ranges::max(sides) / 2)),
      half_(fourier_.half_size()),
      power_(modes_.size() + 1) {
  const int64_t longest = std::ranges::max(sides);
  std::vector<double> rows = {0.0};
  for (std::size_t axis = 0; axis + 1 < sides.size(); ++axis) {
    rows = outer_sum(rows, squares_along(sides[axis], longest, sides[axis]));
  }
  const std::vector<double> columns = squares_along(sides.back(), longest, std::ssize(half_) / std::ssize(rows));
  ring_of_.reserve(half_.size());
  for (const double row : rows) {
    for (std::size_t c = 0; c < columns_; ++c) {
      const auto ring = static_cast<std::size_t>(std::floor(std::sqrt(row + columns[c]) + 0.5));
      // Ring 0, the mean, lies with the corners.
      const std::size_t place = ring == 0 || ring > modes_.size() ? modes_.size() : ring - 1;
      ring_of_.push_back(static_cast<uint32_t>(place));
      const bool own_mirror = c == 0 || (even_ && c + 1 == columns_);
      if (place < modes_.size()) modes_[place] += own_mirror ? 1 : 2;
    }
  }
}

template <typename OfMode>
void RadialSpectrum::sum_rings(const OfMode& of_mode, std::span<double> sums) const {
  for (std::size_t i = 0; i < ring_of_.size(); i += columns_) {
    for (std::size_t c = 0; c < columns_; ++c) {
      const double weight = c == 0 || (even_ && c + 1 == columns_) ? 1.0 : 2.0;
      sums[ring_of_[i + c]] += weight * of_mode(i + c);
    }
  }
}

std::span<const double> RadialSpectrum::power(std::span<const double> values) {
  fourier_.forward_real(values, half_);
  std::ranges::fill(power_, 0.0);
  sum_rings([this](std::size_t i) { return std::norm(half_[i]); }, power_);
  const auto pixels = static_cast<double>(values.size());
  for (std::size_t ring = 0; ring < modes_.size(); ++ring) {
    power_[ring] /= static_cast<double>(modes_[ring]) * pixels;
  }
  return std::span(power_).first(modes_.size());
}

std::vector<double> RadialSpectrum::average(std::span<const double> half) const {
  std::vector<double> means(modes_.size() + 1);
  sum_rings([half](std::size_t i) { return half[i]; }, means);
  means.pop_back();  // the corners
  for (std::size_t ring = 0; ring < modes_.size(); ++ring) means[ring] /= static_cast<double>(modes_[ring]);
  return means;
}

}  // namespace ddpm::data
