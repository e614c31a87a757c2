// The numbers of one set of samples, against the data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "eval/histograms.h"
#include "eval/measured.h"
#include "eval/memorisation.h"
#include "eval/picture_set.h"
#include "eval/picture_statistics.h"
#include "eval/samples_options.h"

namespace ddpm::eval {

/// Knows the data, and measures one set after another. What it refers to outlives it.
class SampleMeasurer {
 public:
  /// Reads the data and what is held out. Collective.
  SampleMeasurer(comm::Communicator& world, const SampleSets& sets, const SamplesOptions& options,
                 const Reporting& reporting);

  /// The numbers of a set, in the order in which people read them. A small set may lack some of them. Collective.
  std::vector<Measured> measure(const SampleSet& samples);

  /// Features of a picture; 0 where none are wanted.
  [[nodiscard]] int64_t dimension() const { return features_.defined() ? features_.size(1) : 0; }
  /// The neighbours of the set that was measured last, by pixels.
  [[nodiscard]] const std::vector<Neighbour>& nearest() const { return nearest_; }
  [[nodiscard]] const PictureSet& data() const { return data_; }

 private:
  void add_values(const PictureSet& samples, std::vector<Measured>& all);
  void add_histograms(const PictureSet& samples, std::vector<Measured>& all) const;
  void add_neighbours(const PictureSet& samples, const at::Tensor& features, std::vector<Measured>& all);
  void add_distances(const at::Tensor& features, std::vector<Measured>& all) const;
  [[nodiscard]] std::string channel(std::size_t c) const { return data_.set().variables()[c].name; }

  comm::Communicator& world_;
  const SamplesOptions& options_;
  const Reporting& reporting_;
  PictureSet data_;
  std::optional<PictureSet> held_out_;
  PictureStatistics statistics_;
  std::vector<Estimate> of_data_;  // estimates for the data, one for each of statistics_
  PixelLevels levels_;
  PixelHistograms histograms_;
  at::Tensor features_;           // features of the data
  at::Tensor held_out_pixels_;    // undefined: none
  at::Tensor held_out_features_;  // likewise
  std::vector<Neighbour> nearest_;
};

}  // namespace ddpm::eval
