// The numbers of one set of samples, against the data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "eval/histograms.h"
#include "eval/left_out.h"
#include "eval/memorisation.h"
#include "eval/picture_set.h"
#include "eval/picture_statistics.h"
#include "eval/result.h"
#include "eval/samples_options.h"

namespace ddpm::eval {

/// What the best value of a number is.
enum class Best : uint8_t {
  reference,  ///< that of the data
  least,
  one,     ///< 1: for shares and their like
  nobody,  ///< the number is not compared
};

struct Measured {
  Metric metric;
  Best best = Best::least;
  VarianceTerm reference = {};  ///< how well the data's number is known, where that is the best one
  bool by_count = false;        ///< the number depends on how many samples there are
  bool over_data = false;       ///< the error is that over the data: other samples of the same model are no part of it
  bool share = false;           ///< a share, whose interval is that of wilson()
  std::vector<LeftOut> sets = {};  ///< the number of each sample set, where its error is partly one that sets share
};

/// A number's distance from its best value, of which less is better, under the name of that distance.
Metric shortfall(const Measured& measured);

/// The numbers of several sample sets of one model become one, of their mean.
Measured together(const std::vector<const Measured*>& sets);

/// Compares two models by their shortfalls in one number.
Comparison compare(const Measured& a, const Measured& b);

/// Knows the data, and measures one set after another. What it refers to outlives it.
class SampleMeasurer {
 public:
  /// Reads the data and what is held out. Collective.
  SampleMeasurer(comm::Communicator& world, const SampleSets& sets, const SamplesOptions& options,
                 const Reporting& reporting);

  /// The numbers of a set: for each set the same ones, in the same order. Collective.
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
