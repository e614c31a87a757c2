// What brings islands together: copies of the state that are updated each on its own for parallel.sync_every steps.
//
// Douillard et al., "DiLoCo", 2023 (arXiv 2311.08105), algorithm 1: the weights of all islands are averaged, how far
// the average is from where they began is the gradient of one step of SGD with Nesterov's momentum, and all islands
// begin anew where that leads. Moments of AdamW stay each island's own. Moving averages of the weights follow the
// outer steps, each as if the weights had been what they have become for all of its updates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "engine/step_rules.h"
#include "engine/training_state.h"
#include "parallel/uncut_pieces.h"

namespace ddpm::engine {

class OuterStep {
 public:
  /// `world` has host memory and `data_parallel` that of gradients; both hold all ranks. Everything outlives this
  /// object. Collective.
  OuterStep(const StepRules& rules, TrainingState& state, comm::Communicator& world, comm::Communicator& data_parallel);

  /// Whether an outer step follows step number `step`: every sync_every steps, and after the last one.
  [[nodiscard]] bool due(int64_t step) const;
  /// Changes weights and averages, after a step that is counted. Collective.
  void run();

 private:
  /// What is left of each average after the updates that it has not seen.
  [[nodiscard]] std::vector<double> unseen_decays() const;

  const StepRules& rules_;
  TrainingState& state_;
  std::unique_ptr<comm::Communicator> islands_;  ///< the ranks that hold the same part, one of each island
  std::optional<parallel::UncutPieces> uncut_;
};

}  // namespace ddpm::engine
