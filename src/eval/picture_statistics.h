// What single pictures say of their values: moments of each channel, and the power spectrum in octaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/radial_spectrum.h"
#include "eval/groups.h"
#include "eval/left_out.h"

namespace ddpm::eval {

/// A statistic of one channel.
struct PictureStatistic {
  std::string name;  ///< "mean", "deviation", "skewness", "kurtosis" (3 of a normal), or "spectrum"
  std::size_t channel = 0;
  std::string band = {};  ///< part of the spectrum: "k 4-7", in cycles along the longest side
};

class PictureStatistics {
 public:
  /// The sides of the pictures: height and width.
  PictureStatistics(int64_t channels, const std::vector<int64_t>& sides);

  /// Numbers that are kept of a picture.
  [[nodiscard]] std::size_t width() const { return channels_ * (kMoments + bands_.size()); }
  /// The numbers of a picture [channels, pixels...]: its mean, the means of the second to fourth powers of its values
  /// less that mean, and the mean power of the modes of each octave of data/radial_spectrum.h.
  void measure(std::span<const float> picture, std::span<double> row);

  [[nodiscard]] const std::vector<PictureStatistic>& list() const { return list_; }
  /// Each of list() for the pictures whose rows [n, width()] these are, also without each unit of them.
  [[nodiscard]] std::vector<LeftOut> left_out(std::span<const double> rows, const SampleUnits& units = {}) const;

 private:
  static constexpr std::size_t kMoments = 4;
  struct Band {
    std::size_t first;  // ring, from 0 on
    std::size_t end;
  };
  /// Sums of rows over the samples of each unit, [unit, width()], and how many these are.
  struct UnitSums {
    std::vector<double> sums;
    std::vector<int64_t> members;
  };
  [[nodiscard]] UnitSums sums_of(std::span<const double> rows, const SampleUnits& units) const;
  /// The mean of each channel over all pictures.
  [[nodiscard]] std::vector<double> centres_of(std::span<const double> rows) const;
  /// The rows with means of powers of the values less these centres, which may be averaged over pictures.
  [[nodiscard]] std::vector<double> about(std::span<const double> centres, std::span<const double> rows) const;
  /// From the mean of such rows.
  [[nodiscard]] std::vector<double> statistics(std::span<const double> mean_row, std::span<const double> centres) const;

  std::size_t channels_;
  data::RadialSpectrum spectrum_;
  std::vector<Band> bands_;
  std::vector<PictureStatistic> list_;
  std::vector<double> centred_;
};

}  // namespace ddpm::eval
