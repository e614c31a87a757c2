#include "parallel/whole_tensors.h"

#include <cstddef>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "comm/message_tags.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {
at::Tensor gather_whole(const ParameterArena& arena, const StateBuffer& state, comm::Communicator& shard, bool keep) {
  const at::NoGradGuard no_grad;
  const auto host = at::TensorOptions().dtype(at::kFloat);
  at::Tensor whole = keep ? at::empty({arena.size()}, host) : at::Tensor();
  if (arena.sharding().parts == 1) {
    if (keep && !state.empty()) whole.copy_(state.front());
    return whole;
  }
  std::size_t piece = 0;
  for (const layout::Range& segment : arena.layout().segments()) {
    if (segment.empty()) continue;
    const at::Tensor part = state[piece++].to(at::kCPU).contiguous();
    const at::Tensor gathered =
        keep ? whole.narrow(0, segment.begin, segment.size()) : at::empty({segment.size()}, host);
    shard.all_gather(buffer_of(part), buffer_of(gathered)).wait();
  }
  return whole;
}

at::Tensor join_parts(const at::Tensor& part, const base::Split& split, comm::Communicator& channels) {
  const at::NoGradGuard no_grad;
  const bool first = channels.rank() == 0;
  if (!split.cuts()) return first ? part : at::Tensor();
  const at::Tensor own = part.to(at::kCPU, at::kFloat).contiguous();
  if (!first) {
    channels.send(buffer_of(own), 0, comm::tags::kWeightPart).wait();
    return {};
  }
  std::vector<at::Tensor> parts = {own};
  for (int rank = 1; rank < channels.size(); ++rank) {
    parts.push_back(at::empty_like(own));
    channels.receive(buffer_of(parts.back()), rank, comm::tags::kWeightPart).wait();
  }
  return at::cat(parts, split.dim);
}

}  // namespace ddpm::parallel
