#include "eval/pairwise.h"

#include <span>

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "base/pulse.h"
#include "comm/collectives.h"
#include "layout/dealt_batches.h"

namespace ddpm::eval {

at::Tensor squared_distances(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor squares = at::mm(x, y.t()).mul_(-2.0);
  squares.add_(x.square().sum(1, /*keepdim=*/true)).add_(y.square().sum(1));
  return squares.clamp_min_(0.0);
}

at::Tensor by_row_blocks(comm::Communicator& world, int64_t rows, int64_t width,
                         const std::function<at::Tensor(layout::Range rows)>& work) {
  at::Tensor all = at::zeros({rows, width}, at::kDouble);
  const layout::DealtBatches blocks{.count = rows, .batch_size = kRowBlock, .ranks = world.size()};
  comm::agree(world, [&] {
    for (int64_t round = 0; round < blocks.rounds(); ++round) {
      const layout::Range mine = blocks.items(round, world.rank());
      if (!mine.empty()) all.slice(0, mine.begin, mine.end).copy_(work(mine));
      base::pulse();
    }
  });
  // One rank has a row and the others zeros, so that the order of the sum changes nothing.
  comm::all_reduce(world, std::span(all.mutable_data_ptr<double>(), static_cast<std::size_t>(all.numel())),
                   comm::ReduceOp::sum);
  return all;
}

}  // namespace ddpm::eval
