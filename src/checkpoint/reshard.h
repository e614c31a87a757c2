// Rewrites a checkpoint's state in another number of shards, for `ddpm checkpoint reshard`.
//
// No rank holds the state: shard i is written by rank i mod ranks, and its bytes are read from the old shards in pieces
// of a few MiB just before they are written. Any number of ranks can load any number of shards, so training needs none
// of this; it is for archives, for copying, and for file systems that want fewer or more files.
#pragma once

#include <cstdint>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/store.h"
#include "comm/communicator.h"

namespace ddpm::checkpoint {

inline constexpr int64_t kMaxShards = 99'999;  ///< five digits in a shard's name

/// What shard `index` of `count` holds: part `index` of the bytes of all tensors one after the other in the manifest's
/// order, cut between elements. At most one slice of each tensor; all shards together cover each element once.
std::vector<TensorSlice> shard_slices(const Manifest& manifest, int64_t count, int64_t index);

/// Writes `checkpoint` (opened by all ranks of `comm`) into `target`, another run's store on the same ranks, as
/// `shards` shards. Step, state and hashes stay, and the files are the same whatever the number of ranks. Collective;
/// fails on all ranks together, as CheckpointStore::save does.
SaveReport reshard(const Checkpoint& checkpoint, int64_t shards, base::FileSystem& files, comm::Communicator& comm,
                   CheckpointStore& target);

}  // namespace ddpm::checkpoint
