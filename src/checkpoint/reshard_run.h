// A checkpoint in another number of shards, as the only one of a new run folder.
#pragma once

#include <cstdint>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "comm/communicator.h"

namespace ddpm::checkpoint {

/// What reshard_run() makes of what.
struct ReshardRequest {
  base::Path run;     ///< the run that the checkpoint is of, or was
  base::Path output;  ///< the new run folder, relative or absolute
  int64_t shards;     ///< 1 to kMaxShards
};

/// Writes `checkpoint` (opened by all ranks of `comm`) by reshard(), and beside it the run's configuration, which
/// training and sampling need; warns of a run without one. Until all is there the folder has a hidden name, and what
/// killed processes have left of it is removed. The report names its place in `request.output`. Collective; fails on
/// all ranks together, with OutputError's code where something lies at the output, where another process is writing it,
/// and where it is among the checkpoints of a run.
SaveReport reshard_run(const Checkpoint& checkpoint, const ReshardRequest& request, base::FileSystem& files,
                       comm::Communicator& comm, const base::Logger& logger);

}  // namespace ddpm::checkpoint
