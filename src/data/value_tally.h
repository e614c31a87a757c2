// What the values of one variable are, gathered image by image in two sweeps. Counts are integers and sums exact, so
// that the result does not depend on the images' order, nor on which rank saw which of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/exact_sum.h"

namespace ddpm::data {

/// Bins of equal width; bin i holds edge(i) <= x < edge(i + 1), the last one also x = edge(size).
struct Histogram {
  double low = 0.0;
  double high = 0.0;
  std::vector<int64_t> counts;
  [[nodiscard]] double width() const { return (high - low) / static_cast<double>(counts.size()); }
  [[nodiscard]] double edge(std::size_t i) const;
  /// The bin of a value; what lies beyond the edges counts as in the bin beside them.
  [[nodiscard]] std::size_t bin(double value) const;
  /// From `min` to `max`; where these are equal, around the one value.
  static Histogram between(double min, double max, std::size_t bins);
};

/// Percentages of values that lie at or below the quantiles.
inline constexpr std::array<int64_t, 7> kPercents = {1, 5, 25, 50, 75, 95, 99};

/// Values in order fall into 4096 coarse cells by the 12 highest bits of a float32 (sign, exponent, 3 bits more), and
/// within each into 4096 fine ones by the next 12 bits.
inline constexpr std::size_t kCells = 4096;

/// The first sweep: how many values there are, where they lie, and about what they are centred.
struct FirstTally {
  int64_t count = 0;       ///< finite values of valid pixels; min, max, sum and `coarse` are taken over these
  int64_t masked = 0;      ///< values of pixels that are not valid
  int64_t non_finite = 0;  ///< NaN and infinity in valid pixels
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  base::ExactSum sum;
  std::vector<int64_t> coarse = std::vector<int64_t>(kCells);

  void add(std::span<const float> values);
  [[nodiscard]] double mean() const { return sum.value() / static_cast<double>(count); }
};

/// The second sweep, around the numbers of the first.
class SecondTally {
 public:
  SecondTally(const FirstTally& first, const Histogram& empty);

  void add(std::span<const float> values);

  /// Divided by the number of values: the mean of (x - c)^p about the centre c, for p from 1 to 4.
  [[nodiscard]] std::array<double, 4> mean_powers() const;
  [[nodiscard]] const Histogram& histogram() const { return histogram_; }
  /// How many values were added.
  [[nodiscard]] int64_t count() const;
  /// The least value v such that at least p % of all are at most v, for each p of kPercents. The 8 lowest bits of a
  /// float32 do not count: values are taken as cut to 16 significant bits.
  [[nodiscard]] std::vector<double> quantiles() const;
  /// The integers to be summed over ranks.
  void append_parts(std::vector<std::span<int64_t>>& parts);

 private:
  /// Cells of one quantile.
  struct Rank {
    std::size_t coarse;  ///< the cell that it lies in
    int64_t within;      ///< its place among the cell's values, counted from 0
  };

  static constexpr std::size_t kNoSlot = kPercents.size();

  int64_t total_;
  double centre_;
  std::array<base::ExactSum, 4> powers_;
  Histogram histogram_;
  std::vector<Rank> ranks_;
  std::vector<std::size_t> slot_of_;  // for each coarse cell, its place in fine_, or kNoSlot
  std::vector<std::vector<int64_t>> fine_;
};

/// Mean, deviation and the like, as SciPy defines them without corrections for bias.
struct Moments {
  double mean = 0.0;
  double std = 0.0;
  double skewness = std::numeric_limits<double>::quiet_NaN();  ///< does not exist where all values are the same
  double kurtosis = std::numeric_limits<double>::quiet_NaN();  ///< excess: 0 of a normal distribution; as the skewness
};
Moments moments_of(double centre, const std::array<double, 4>& mean_powers);

}  // namespace ddpm::data
