#include "parallel/uncut_pieces.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/cat.h>

#include "comm/axis_communicator.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {
namespace {

constexpr int64_t kPacketElements = int64_t{4} << 20;  // 16 MiB

}  // namespace

UncutPieces::UncutPieces(const ParameterArena& arena, const StateBuffer& state, comm::Communicator& all,
                         const layout::Mesh& mesh, layout::Axes summed) {
  // Two numbers have one sum.
  if (mesh.degree(layout::Axis::tensor) == 1 || mesh.degree(summed) <= 2) return;
  ranks_ = comm::axis_communicator(all, mesh, layout::Axis::tensor);
  int64_t room = 0;
  for (const at::Tensor& run : arena.uncut_pieces_of(state)) {
    if (packets_.empty() || run.numel() > room) {
      packets_.emplace_back();
      room = kPacketElements;
    }
    packets_.back().push_back(run);
    room -= run.numel();
  }
}

void UncutPieces::take_first() {
  const at::NoGradGuard no_grad;
  for (const StateBuffer& packet : packets_) {
    if (packet.size() == 1) {
      ranks_->broadcast(buffer_of(packet.front()), 0).wait();
      continue;
    }
    std::vector<int64_t> sizes;
    sizes.reserve(packet.size());
    for (const at::Tensor& run : packet) sizes.push_back(run.numel());
    const at::Tensor packed = at::cat(packet);
    ranks_->broadcast(buffer_of(packed), 0).wait();
    at::_foreach_copy_(packet, packed.split_with_sizes(sizes));
  }
}

}  // namespace ddpm::parallel
