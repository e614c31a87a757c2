// One rank's part in a run: its share of the batch and of the state, its device and its threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/log.h"
#include "comm/mpi_session.h"
#include "config/schema.h"
#include "engine/step_rules.h"
#include "layout/batch_layout.h"
#include "layout/mesh.h"
#include "layout/parallelism.h"
#include "parallel/config.h"
#include "parallel/parameter_arena.h"
#include "run/config.h"
#include "run/state_slices.h"

namespace ddpm::run {

/// What the configuration asks of its ranks. Training, a dry run and a plan have it from here.
layout::Parallelism parallelism_of(const CommonConfig& config);

/// Throws CommunicationError on all ranks unless they agree on the configuration and the executable. Collective.
void expect_same_program(const config::Schema& configuration, comm::Communicator& world);

struct Placement {
  layout::Parallelism parallelism;
  layout::Mesh mesh;           ///< all ranks
  int64_t rank = 0;            ///< this one's number in `mesh`
  layout::BatchLayout layout;  ///< over the data-parallel ranks of `mesh`
  parallel::Sharding sharding;
  Replica replica;  ///< which part of its pieces this rank saves
  at::Device device;
  at::ScalarType compute_dtype;

  /// Which share of each batch is this rank's: the number to ask `layout` with.
  [[nodiscard]] int64_t data_parallel_rank() const { return mesh.coordinate(rank, layout::kDataParallel); }

  /// Makes the placement, and tells LibTorch how many threads and which kernels to use (choose_kernels). Throws
  /// ConfigError on all ranks for what cannot work together.
  static Placement make(const CommonConfig& config, comm::MpiSession& session, const base::Logger& log);
};

/// What stays the same over the run's optimizer steps, of which there are `total_steps`.
engine::StepRules rules_of(const CommonConfig& config, const Placement& place, int64_t total_steps);

}  // namespace ddpm::run
