#include "run/state_slices.h"

namespace ddpm::run {
namespace {

using layout::Range;
using Entry = parallel::ParameterArena::Entry;

/// Elements `range` of the entry in storage order; `run` holds just those.
void append_views(const std::string& name, const Entry& entry, Range range, const at::Tensor& run,
                  std::vector<StateView>& views) {
  if (entry.shape.size() != 4) {
    views.push_back({checkpoint::flat_slice(name, base::DType::f32, entry.shape, range), run});
    return;
  }
  // Boxes of the tensor as it is stored, [out, kh, kw, in], with their axes put back into the model's order.
  const auto& s = entry.shape;
  int64_t begin = 0;
  for (const checkpoint::Box& box :
       checkpoint::boxes_of(checkpoint::flat_slice(name, base::DType::f32, {s[0], s[2], s[3], s[1]}, range))) {
    const int64_t count = checkpoint::element_count(box);
    const at::Tensor stored =
        run.narrow(0, begin, count).view({box[0].size(), box[1].size(), box[2].size(), box[3].size()});
    views.push_back(
        {{name, base::DType::f32, s, {box[0], box[3], box[1], box[2]}, {0, count}}, stored.permute({0, 3, 1, 2})});
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
