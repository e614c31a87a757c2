// What a run knows of its training that neither its configuration nor its counters tell: checkpoints remember it, so
// that the model card of any of them, whenever it is exported, says the same.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "interop/model_card.h"

namespace ddpm::train {

struct TrainingFacts {
  std::string hardware = {};                             ///< "4 ranks on 2 hosts; GPU: NVIDIA H100"
  std::string software = {};                             ///< "LibTorch 2.11.0, Open MPI v4.1.4"
  std::string program = {};                              ///< the version of ddpm
  std::vector<interop::CardStatistics> statistics = {};  ///< over each channel of the training set; empty: not known
  std::string counted_over = {};  ///< what the statistics cover: "256 sampled images"; empty: all images
};

/// The scalars under which a checkpoint's state holds them, and back; what an earlier version has not written is empty.
/// Damaged ones throw OutputError, which begins with `origin`.
void write_training_facts(const TrainingFacts& facts, base::Json& state);
TrainingFacts read_training_facts(const base::Json& state, const std::string& origin);

}  // namespace ddpm::train
