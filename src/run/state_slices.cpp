#include "run/state_slices.h"

#include <algorithm>

namespace ddpm::run {
namespace {

using layout::Range;
using Entry = parallel::ParameterArena::Entry;

/// Elements `range` of the entry in storage order; `run` holds just those.
void append_views(const std::string& name, const Entry& entry, Range range, const at::Tensor& run,
                  std::vector<StateView>& views) {
  if (!parallel::ParameterArena::is_kernel(entry)) {
    views.push_back({checkpoint::flat_slice(name, base::DType::f32, entry.shape, range), run});
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
    views.push_back({{name, base::DType::f32, entry.shape, box, {0, count}}, stored.movedim(-1, 1)});
    begin += count;
  }
}

}  // namespace

std::vector<StateView> state_views(const parallel::ParameterArena& arena, const parallel::StateBuffer& state,
                                   const std::string& prefix, const Replica& replica) {
  std::vector<StateView> views;
  for (std::size_t i = 0; i < arena.pieces().size(); ++i) {
    const Range piece = arena.pieces()[i];
    const Range share = layout::aligned_part(piece.size(), replica.count, replica.index, layout::kFlatAlignment);
    const Range mine{piece.begin + share.begin, piece.begin + share.end};
    for (const Entry& entry : arena.entries()) {
      const Range kept = layout::intersect(mine, entry.range);
      if (kept.empty()) continue;
      append_views(prefix + entry.name, entry, {kept.begin - entry.range.begin, kept.end - entry.range.begin},
                   state[i].narrow(0, kept.begin - piece.begin, kept.size()), views);
    }
  }
  return views;
}

}  // namespace ddpm::run
