// Reading the images of a set, all of them or a sample, to learn what they hold and which of them cannot be used.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress_report.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "data/image_sweep.h"
#include "data/statistics.h"

namespace ddpm::data {

struct SurveyOptions {
  int64_t most_images = 0;            ///< so many images at most, evenly spaced over the set; 0: all
  bool statistics = true;             ///< false: images are read and checked only
  FieldRole role = FieldRole::image;  ///< whose values are looked at: images, or conditions in their place
  /// Changes the stored values of an image before they are added to the statistics.
  std::function<void(std::span<std::byte> image)> prepare = {};
};

struct Survey {
  /// Faults that are named; the others are counted.
  static constexpr std::size_t kMostNamed = ImageSweep::kMostNamed;

  int64_t images = 0;  ///< images that were read, usable or not
  /// The statistics of the usable images' stored values, where masks say that they are valid; empty when there are
  /// none.
  std::vector<ChannelStatistics> statistics;
  int64_t unusable = 0;             ///< images that are damaged or hold values that are not finite
  std::vector<std::string> faults;  ///< the first kMostNamed of them, in the order of the images
};

/// How many images to look at so that at most about `most_bytes` are read for them, all chunks that they lie in
/// included: `most_images` at most, and 16 in any case (or all, where there are fewer).
int64_t sample_size(const Dataset& dataset, int64_t most_images, int64_t most_bytes);

/// Each rank reads a part of the images. The result is the same, bit for bit, on every rank and for any number of
/// ranks. `progress` is told how many of this rank's images are done, and how many there are. Collective. What is wrong
/// with an image (ImageError) is a part of the result. Every other failure, such as an error of the machine or a file
/// that has changed, throws on all ranks: it says nothing of the images.
Survey survey(comm::Communicator& comm, const Dataset& dataset, const SurveyOptions& options,
              const base::ProgressReport& progress = {});

}  // namespace ddpm::data
