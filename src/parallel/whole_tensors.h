// What ranks hold in pieces, put together on a host: for files and for comparisons.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/split.h"
#include "comm/communicator.h"
#include "parallel/parameter_arena.h"

namespace ddpm::parallel {

/// The whole flat buffer of which each rank of the shard group has its pieces, on the host of ranks where `keep` is
/// set; undefined elsewhere. Collective.
at::Tensor gather_whole(const ParameterArena& arena, const StateBuffer& state, comm::Communicator& shard, bool keep);

/// The whole of a float32 tensor, of which each rank of `channels` holds the part that its `split` says, on the host of
/// rank 0 of them; undefined on others. Collective over `channels`.
at::Tensor join_parts(const at::Tensor& part, const base::Split& split, comm::Communicator& channels);

}  // namespace ddpm::parallel
