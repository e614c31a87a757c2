// The pieces of flat buffers that a rank keeps, seen as slices of the model's tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/dtype.h"
#include "base/split.h"
#include "checkpoint/slice.h"
#include "layout/mesh.h"
#include "parallel/parameter_arena.h"

namespace ddpm::run {

/// A slice and its memory: the row-major elements of `values` (which need not be contiguous) are those of the slice.
struct StateView {
  checkpoint::TensorSlice slice;
  at::Tensor values;
  bool fixed = false;  ///< training does not change it
};

/// One of `count` ranks that hold the same pieces. What more of them hold alike is one rank's to save.
struct Replica {
  int64_t index = 0;
  int64_t count = 1;
  bool has_shared = true;  ///< parameters that are not cut, which ranks with other channels of the blocks hold too
  bool has_fixed = true;   ///< what training does not change, of ranks with the same units and channels

  /// What `rank` of `mesh` saves.
  static Replica of(const layout::Mesh& mesh, int64_t rank);
};

/// The part that `split` says of a tensor, of which `held` is the shape of what is here.
checkpoint::TensorSlice part_slice(std::string name, base::DType dtype, const std::vector<int64_t>& held,
                                   const base::Split& split);

/// Views of `state`, a buffer of the arena, named prefix + parameter. Replicas share the pieces evenly, so that all of
/// them together cover each element once. A convolution weight lies channels-last in memory, but slices follow the
/// model's axis order: a piece that cuts it becomes several boxes.
std::vector<StateView> state_views(const parallel::ParameterArena& arena, const parallel::StateBuffer& state,
                                   const std::string& prefix, const Replica& replica);

}  // namespace ddpm::run
