// What one rank does of a run: its share of the batch and of the state, its device and its threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/log.h"
#include "comm/session.h"
#include "config/combinations.h"
#include "config/schema.h"
#include "engine/step_rules.h"
#include "layout/batch_layout.h"
#include "parallel/config.h"
#include "parallel/parameter_arena.h"
#include "run/config.h"
#include "run/state_slices.h"

namespace ddpm::run {

/// What training on `ranks` ranks asks of config/combinations.h before its first step.
config::Features features_of(const CommonConfig& config, int64_t ranks);

/// Throws CommunicationError on all ranks unless they agree on the configuration and the executable. Collective.
void expect_same_program(const config::Schema& configuration, comm::Communicator& world);

struct Placement {
  layout::BatchLayout layout;
  parallel::DataParallelSizes sizes;
  parallel::Sharding sharding;
  Replica replica;  ///< of this rank's pieces
  at::Device device;
  at::ScalarType compute_dtype;

  /// Collective. Also tells LibTorch how many threads and which kernels to use (choose_kernels). Throws ConfigError on
  /// all ranks for what cannot work together.
  static Placement make(const CommonConfig& config, comm::MpiSession& session, const base::Logger& log);
};

/// What stays the same over the run's optimizer steps, of which there are `total_steps`.
engine::StepRules rules_of(const CommonConfig& config, const Placement& place, int64_t total_steps);

}  // namespace ddpm::run
