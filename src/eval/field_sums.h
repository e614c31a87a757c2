// What is summed over samples and data, of one variable, for all that `ddpm eval fields` says of it.
//
// Values are centred by a number near their mean, so that their squares keep their digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/radial_spectrum.h"

namespace ddpm::eval {

/// Shares of all values that lie below the quantiles which are compared.
inline constexpr std::array<double, 9> kShares = {0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999};

/// Numbers of a variable that the sums are about.
struct Marks {
  double centre = 0.0;                        ///< subtracted from each value
  std::array<double, kShares.size()> data{};  ///< quantiles of the data
  std::array<double, kShares.size()> own{};   ///< quantiles of the values that are summed
};

/// The places of sums over values, wherever they are from.
struct MarginalSums {
  std::size_t first = 0;  ///< place of the first sum
  std::size_t rings = 0;  ///< how many rings the spectrum has

  [[nodiscard]] std::size_t size() const { return 4 + 3 * kShares.size() + rings; }
  [[nodiscard]] std::size_t count() const { return first; }
  [[nodiscard]] std::size_t sum() const { return first + 1; }
  [[nodiscard]] std::size_t squares() const { return first + 2; }
  [[nodiscard]] std::size_t spectra() const { return first + 3; }
  /// Values beyond the data's quantile: below it for shares under a half, above it for the others.
  [[nodiscard]] std::size_t beyond(std::size_t share) const { return first + 4 + share; }
  /// Values up to the own quantile.
  [[nodiscard]] std::size_t up_to(std::size_t share) const { return first + 4 + kShares.size() + share; }
  /// Values that equal the data's quantile.
  [[nodiscard]] std::size_t equal(std::size_t share) const { return first + 4 + 2 * kShares.size() + share; }
  /// The power of each ring, summed over images.
  [[nodiscard]] std::size_t power() const { return first + 4 + 3 * kShares.size(); }

  /// Adds the valid pixels of one image.
  void add(std::span<const float> values, std::span<const uint8_t> valid, const Marks& marks,
           data::RadialSpectrum& spectrum, std::span<double> sums) const;

  [[nodiscard]] double mean(std::span<const double> sums) const { return sums[sum()] / sums[count()]; }
  /// The population's deviation.
  [[nodiscard]] double deviation(std::span<const double> sums) const;
};

/// The places of sums over conditions, each with an ensemble x of `members` and the truth y.
struct EnsembleSums {
  enum Place : std::size_t {
    pixels,  ///< how many pixels are valid
    mean,    ///< ensemble's mean, less the centre
    mean_squares,
    truth,
    truth_squares,
    product,        ///< ensemble's mean times truth
    error_squares,  ///< (ensemble's mean - truth)²
    variance,       ///< variance of the members, with divisor members - 1
    crps,
    crps_fair,
    conditions,
    energy,  ///< energy score of each condition's field; energy_fair is the fair one
    energy_fair,
    ranks,  ///< pixels at which so many members lie below the truth
  };
  std::size_t first = 0;
  int64_t members = 1;

  [[nodiscard]] std::size_t size() const { return Place::ranks + static_cast<std::size_t>(members) + 1; }
  [[nodiscard]] double of(std::span<const double> sums, Place place) const { return sums[first + place]; }
  [[nodiscard]] double rank(std::span<const double> sums, std::size_t r) const { return sums[first + ranks + r]; }

  /// Adds one condition. `x` has `members` planes, `stride` values apart, of y.size() values. `ties` tells how the
  /// ranks of equal values are drawn: see rank_among().
  struct Ties {
    uint64_t condition = 0;
    uint64_t variable = 0;
  };
  void add(std::span<const float> x, std::size_t stride, std::span<const float> y, std::span<const uint8_t> valid,
           double centre, const Ties& ties, std::span<double> sums) const;
};

/// The continuous ranked probability score of an ensemble, which is sorted, for the truth y,
///   mean |x_i - y| - sum_ij |x_i - x_j| / (2 m²),
/// and the fair one (Ferro, Quarterly Journal of the Royal Meteorological Society 140, 1917 (2014)), with m (m - 1) in
/// place of m²; for one member that is |x - y| too.
struct Crps {
  double usual = 0.0;
  double fair = 0.0;
};
Crps crps_of(std::span<const float> sorted, double y);

/// The energy score (Gneiting, Raftery, Journal of the American Statistical Association 102, 359 (2007)) of an ensemble
/// of fields: that of crps_of with the Euclidean norm over all valid pixels.
Crps energy_of(std::span<const float> x, std::size_t stride, int64_t members, std::span<const float> y,
               std::span<const uint8_t> valid);

}  // namespace ddpm::eval
