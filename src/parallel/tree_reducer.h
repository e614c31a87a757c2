// Gradient sums that are the same bit for bit on any power-of-two number of ranks (run.reproducible).
//
// A leaf is the gradient of one micro-batch. Leaves are added over one fixed binary tree, ((0+1)+(2+3))+…, whose lower
// levels lie within a rank, since ranks own consecutive leaves, and whose upper levels are one exchange between pairs
// of ranks each (recursive doubling at distances 1, 2, 4 …). MPI_Allreduce would add in an order of its own choice.
// Where images are cut into tiles, each tile's sum has such a tree, and the tiles' sums are added last, over one more.
#pragma once

#include <memory>
#include <vector>

#include "parallel/gradient_hooks.h"
#include "parallel/gradient_reducer.h"

namespace ddpm::parallel {

class TreeReducer final : public GradientReducer {
 public:
  /// Stages 0 and 1; micro-batches per rank, ranks and `tiles`, whose ranks are neighbours, are powers of two
  /// (layout::refuse_combinations sees to it). Keeps 1 + log2(micro-batches) gradient buffers. Collective.
  TreeReducer(ParameterArena& arena, const GradientGroups& groups, int64_t tiles);

  void begin_step() override;
  void begin_micro_batch(bool last) override;
  void end_micro_batch() override;
  void abandon() override {}  // nothing is on its way before finalize()
  void discard() override;
  void finalize() override;
  [[nodiscard]] double exposed_seconds() const override { return exposed_seconds_; }

 private:
  /// The sum of 2^level leaves.
  struct Node {
    int level = 0;
    at::Tensor sum;
  };

  void add(std::size_t index);
  at::Tensor take_buffer();

  ParameterArena& arena_;
  const GradientGroups& groups_;
  int tiles_;
  std::vector<Node> stack_;  // levels fall from the bottom to the top; the bottom is the arena's gradient buffer
  std::vector<at::Tensor> spare_;
  at::Tensor leaf_;
  double exposed_seconds_ = 0.0;
  GradientHooks hooks_;
};

}  // namespace ddpm::parallel
