// How far apart the distributions of single pixel values are.
#pragma once

#include <cstdint>
#include <vector>

#include "base/progress_report.h"
#include "comm/communicator.h"
#include "eval/groups.h"
#include "eval/left_out.h"
#include "eval/picture_set.h"

namespace ddpm::eval {

/// Values that are told apart, from `low` to `high` in equal steps. Others count as the nearest of them, and so many
/// steps as they lie beyond it.
struct PixelLevels {
  static constexpr int64_t kCount = 256;
  double low = -1.0;
  double high = 1.0;
  [[nodiscard]] double step() const { return (high - low) / static_cast<double>(kCount - 1); }
};
/// The levels of 8-bit pictures, or from the least value of the pictures to the greatest. Collective.
PixelLevels pixel_levels(comm::Communicator& world, const PictureSet& pictures, const base::ProgressReport& progress);

/// How often each level occurs: counts of kJackknifeGroups groups of pictures (groups.h), of each channel.
struct PixelHistograms {
  int64_t groups = 0;
  int64_t channels = 0;
  std::vector<int64_t> counts;  ///< [groups, channels, kCount]
  std::vector<int64_t> beyond;  ///< [groups, channels]: steps that values lie outside of the levels, of all together
};
/// Collective.
PixelHistograms pixel_histograms(comm::Communicator& world, const PictureSet& pictures, const SampleUnits& units,
                                 const PixelLevels& levels, const base::ProgressReport& progress);

/// The Wasserstein-1 distance of each channel's distribution from that of the data, in the pictures' values: the mean
/// way that a value has to go to have the data's distribution; also without each group of samples.
std::vector<LeftOut> histogram_distances(const PixelHistograms& samples, const PixelHistograms& data,
                                         const PixelLevels& levels);

}  // namespace ddpm::eval
