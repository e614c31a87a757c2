// Averages of any length from the checkpoints that a run has kept: see optim/post_hoc.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/log.h"
#include "checkpoint/store.h"
#include "run/snapshot.h"

namespace ddpm::run {

/// The averages by power functions among those of a run's checkpoints.
struct PowerAverages {
  std::vector<double> relative_lengths;
  std::size_t first = 0;  ///< the index of the first of them
};

/// Reads into the values of `model` the average of this relative length at the step of `end`, as the sum of the
/// averages that all checkpoints of the run up to there hold; what is not trained is that of `end`. Says how near it
/// comes. Collective. Throws OutputError for a run that keeps no such averages.
void restore_average_of_length(std::span<const ModelTensor> model, double relative_length,
                               const PowerAverages& averages, checkpoint::CheckpointStore& store,
                               const checkpoint::Checkpoint& end, const base::Logger& log);

}  // namespace ddpm::run
