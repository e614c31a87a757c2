// Statistics of every variable of a dataset: moments, quantiles, histograms and power spectra.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress_report.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "data/value_tally.h"

namespace ddpm::data {

struct FieldStatisticsOptions {
  int64_t most_images = 0;   ///< so many images at most, evenly spaced over the set; 0: all
  int64_t bins = 64;         ///< bins in histograms of float32 values; uint8 has one bin for each of its 256 values
  bool transformed = false;  ///< count what the model sees: values after their variable's transform, as float32
};

/// What the values of one variable are. All but `masked` and `non_finite` is of the finite values of valid pixels.
struct VariableStatistics {
  int64_t count = 0;
  int64_t masked = 0;      ///< values of pixels that the mask says are not valid; only for images
  int64_t non_finite = 0;  ///< NaN and infinity in valid pixels
  // Without values there is nothing of what follows.
  double min = 0.0;
  double max = 0.0;
  Moments moments;
  std::vector<double> quantiles;  ///< one for each percentage in kPercents
  Histogram histogram;
  /// Images and volumes only: the power of each ring (radial_spectrum.h), the mean over `spectra` images. Those with a
  /// value that is not finite or without a valid pixel are left out; pixels that are not valid count as the image's
  /// mean.
  std::vector<double> power;
  int64_t spectra = 0;
};

struct FieldStatistics {
  std::size_t field = 0;            ///< its place in dataset.info().fields
  int64_t images = 0;               ///< images that were read, usable or not; 1 of what all images share
  int64_t unusable = 0;             ///< images that are damaged, and not in the statistics
  std::vector<std::string> faults;  ///< what is wrong with the first of them
  std::vector<VariableStatistics> variables;
  std::vector<int64_t> modes;  ///< how many modes each ring of the spectrum has
};

/// The statistics of each field that has variables, in the order of info().fields. Each rank reads a part of the
/// images, twice; memory does not grow with their number. The result is the same, bit for bit, on every rank, for any
/// number of ranks, any order of the images and any number of shards. `progress` is told how many images this rank has
/// read, and how many it reads in all. Collective. What is wrong with an image is a part of the result; every other
/// failure throws on all ranks.
std::vector<FieldStatistics> field_statistics(comm::Communicator& comm, const Dataset& dataset,
                                              const FieldStatisticsOptions& options,
                                              const base::ProgressReport& progress = {});

}  // namespace ddpm::data
