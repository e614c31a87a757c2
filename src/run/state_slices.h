// The pieces of flat buffers that a rank keeps, seen as slices of the model's tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/slice.h"
#include "parallel/parameter_arena.h"

namespace ddpm::run {

/// A slice and its memory: the row-major elements of `values` (which need not be contiguous) are those of the slice.
struct StateView {
  checkpoint::TensorSlice slice;
  at::Tensor values;
};

/// One of `count` ranks that hold the same pieces.
struct Replica {
  int64_t index = 0;
  int64_t count = 1;
};

/// Views of `state`, a buffer of the arena, named prefix + parameter. Replicas share the pieces evenly, so that all of
/// them together cover each element once. A convolution weight lies channels-last in memory, but slices follow the
/// model's axis order: a piece that cuts it becomes several boxes.
std::vector<StateView> state_views(const parallel::ParameterArena& arena, const parallel::StateBuffer& state,
                                   const std::string& prefix, const Replica& replica);

}  // namespace ddpm::run
