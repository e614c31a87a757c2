// Averages of any length from the checkpoints that a run has kept: see optim/post_hoc.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "optim/ema.h"
#include "run/snapshot.h"

namespace ddpm::run {

/// The averages by power functions among those of a run's checkpoints.
struct PowerAverages {
  std::vector<double> relative_lengths;
  std::size_t first = 0;  ///< the index of the first of them

  static PowerAverages of(const optim::EmaConfig& ema);
};

/// A checkpoint remembers which of its averages are by power functions: to go on with others under their numbers would
/// mix profiles, and one of any length would be made wrongly.
void write_power_averages(const PowerAverages& averages, base::Json& state);
/// Throws OutputError where the checkpoint holds averages by other power functions, or under other numbers. One of an
/// earlier version does not say which it holds. Not collective.
void expect_power_averages(const PowerAverages& averages, const checkpoint::Checkpoint& checkpoint);

/// Reads into the values of `model` the average of this relative length at the step of `end`, as the sum of the
/// averages that all checkpoints of the run up to there hold; what is not trained is that of `end`. Says how near it
/// comes. Collective. Throws OutputError for a run that keeps no such averages.
void restore_average_of_length(std::span<const ModelTensor> model, double relative_length,
                               const PowerAverages& averages, checkpoint::CheckpointStore& store,
                               const checkpoint::Checkpoint& end, const base::Logger& log);

}  // namespace ddpm::run
