// The numbers of one set of samples, against the data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "eval/groups.h"
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
  /// What of a set is independent of the rest.
  [[nodiscard]] const SampleUnits& units_of(const SampleSet& samples) const { return units_.at(&samples); }
  /// Whether unit u is the same condition in all sets.
  [[nodiscard]] bool same_units() const { return same_units_; }
  /// The neighbours of the set that was measured last, by pixels.
  [[nodiscard]] const std::vector<Neighbour>& nearest() const { return nearest_; }
  [[nodiscard]] const PictureSet& data() const { return data_; }

 private:
  void find_units(const SampleSets& sets);
  void add_values(const PictureSet& samples, std::vector<Measured>& all);
  void add_histograms(const PictureSet& samples, std::vector<Measured>& all) const;
  void add_neighbours(const PictureSet& samples, const at::Tensor& features, std::vector<Measured>& all);
  void add_memorisation(const Memorisation& found, const std::string& space, const SampleUnits& units,
                        std::vector<Measured>& all) const;
  void add_distances(const at::Tensor& features, const SampleUnits& units, std::vector<Measured>& all) const;
  /// The number of one set by what it is without each unit, or group of units, of its samples. Sets keep that where
  /// there are conditions, which several sets may have in common.
  [[nodiscard]] Measured of_units(Metric metric, const LeftOut& number, int64_t units) const;
  /// The mean of numbers of the samples, or a share of them.
  [[nodiscard]] Measured mean_of_samples(Metric metric, std::span<const double> numbers, bool share,
                                         const SampleUnits& units) const;
  [[nodiscard]] std::string channel(std::size_t c) const { return data_.set().variables()[c].name; }

  comm::Communicator& world_;
  const SamplesOptions& options_;
  const Reporting& reporting_;
  PictureSet data_;
  std::optional<PictureSet> held_out_;
  std::map<const SampleSet*, SampleUnits> units_;
  bool grouped_ = false;     // whether a set has conditions
  bool same_units_ = false;  // whether all of them have the same ones
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
