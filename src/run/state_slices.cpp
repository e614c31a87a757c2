#include "run/state_slices.h"

#include <algorithm>
#include <utility>

namespace ddpm::run {
namespace {

using layout::Range;
using parallel::ArenaEntry;

/// Elements `range` of the entry in storage order; `run` holds just those.
void append_views(const std::string& name, const ArenaEntry& entry, Range range, const at::Tensor& run,
                  std::vector<StateView>& views) {
  const checkpoint::TensorSlice held = part_slice(name, base::DType::f32, entry.shape, entry.split);
  if (!parallel::ParameterArena::is_kernel(entry)) {
    views.push_back({held, run});
    views.back().slice.flat = range;
    return;
  }
  // Boxes of the tensor as it is stored, [out, sides of the kernel, in], with their axes put back into the model's
  // order.
  std::vector<int64_t> stored_shape = entry.shape;
  std::rotate(stored_shape.begin() + 1, stored_shape.begin() + 2, stored_shape.end());
  int64_t begin = 0;
  for (checkpoint::Box box :
       checkpoint::boxes_of(checkpoint::flat_slice(name, base::DType::f32, stored_shape, range))) {
    const int64_t count = checkpoint::element_count(box);
    std::vector<int64_t> sides;
    for (const Range& axis : box) sides.push_back(axis.size());
    const at::Tensor stored = run.narrow(0, begin, count).view(sides);
    std::rotate(box.begin() + 1, box.end() - 1, box.end());
    for (std::size_t axis = 0; axis < box.size(); ++axis) {
      box[axis].begin += held.box[axis].begin;
      box[axis].end += held.box[axis].begin;
    }
    views.push_back({{name, base::DType::f32, held.global_shape, box, {0, count}}, stored.movedim(-1, 1)});
    begin += count;
  }
}

}  // namespace

Replica Replica::of(const layout::Mesh& mesh, int64_t rank) {
  return {.index = mesh.coordinate(rank, layout::kReplicas),
          .count = mesh.degree(layout::kReplicas),
          .has_shared = mesh.coordinate(rank, layout::Axis::tensor) == 0,
          .has_fixed = mesh.coordinate(rank, layout::kDataParallel | layout::Axis::spatial) == 0};
}

checkpoint::TensorSlice part_slice(std::string name, base::DType dtype, const std::vector<int64_t>& held,
                                   const base::Split& split) {
  checkpoint::TensorSlice slice = checkpoint::whole_slice(std::move(name), dtype, held);
  if (!split.cuts()) return slice;
  const auto axis = static_cast<std::size_t>(split.dim);
  slice.global_shape = split.whole(held);
  slice.box[axis] = {split.part * held[axis], (split.part + 1) * held[axis]};
  return slice;
}

std::vector<StateView> state_views(const parallel::ParameterArena& arena, const parallel::StateBuffer& state,
                                   const std::string& prefix, const Replica& replica) {
  std::vector<StateView> views;
  for (std::size_t i = 0; i < arena.pieces().size(); ++i) {
    const Range piece = arena.pieces()[i];
    const Range share = layout::aligned_part(piece.size(), replica.count, replica.index, layout::kFlatAlignment);
    const Range mine{piece.begin + share.begin, piece.begin + share.end};
    for (const ArenaEntry& entry : arena.entries()) {
      const Range kept = layout::intersect(mine, entry.range);
      if (kept.empty() || !(entry.split.cuts() || replica.has_shared)) continue;
      append_views(prefix + entry.name, entry, {kept.begin - entry.range.begin, kept.end - entry.range.begin},
                   state[i].narrow(0, kept.begin - piece.begin, kept.size()), views);
    }
  }
  return views;
}

}  // namespace ddpm::run
