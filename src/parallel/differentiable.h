// Collectives as operations that autograd knows: what travels forward, and the gradients that travel back.
//
// All are collective over `ranks`, forward and backward; `ranks` outlives the graph. Gradients arrive in the order of
// the ranks, so that sums have the same bits in every run. Second derivatives are not defined.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace ddpm::parallel {

/// The sum of x over the ranks, on each of them. The gradient is the sum of all ranks' gradients.
at::Tensor sum_over(const at::Tensor& x, comm::Communicator& ranks);

/// x, which is alike on all ranks. The gradient is the sum of all ranks' gradients.
at::Tensor spread_over(const at::Tensor& x, comm::Communicator& ranks);

/// The sum of x over the ranks, on each of them, for what all ranks go on to compute alike: the gradient, which is
/// alike on all of them, is each rank's own.
at::Tensor reduce_over(const at::Tensor& x, comm::Communicator& ranks);

/// x [N, own, C] of all ranks, one after another along dimension 1: [N, Σ extents, C]. `extents`: that of each rank. A
/// rank's gradient is the sum of what its part has had on all ranks.
at::Tensor gather_over(const at::Tensor& x, std::span<const int64_t> extents, comm::Communicator& ranks);

/// The ranks that hold what lies before and behind x along one axis; -1: none does, and zeros stand there.
struct Neighbours {
  int64_t before = -1;
  int64_t after = -1;
};

/// How much of each neighbour is wanted.
struct Margin {
  int64_t before = 0;
  int64_t after = 0;
};

/// The margin along dimension `dim`, counted from the end.
struct Side {
  int64_t dim = -1;
  Margin margin = {};
  Neighbours neighbours = {};
};

/// x with the entries of its neighbours along dimensions, one after the other, so that the corners come along. All
/// ranks want the same margins of theirs, and hold at least as much. x is [..., C, axes...], and travels channels-last.
at::Tensor with_margins(const at::Tensor& x, std::span<const Side> sides, comm::Communicator& ranks);

}  // namespace ddpm::parallel
