// Pipeline parallelism as arithmetic: which neighbouring units make a stage, and in which order a stage takes its
// passes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/range.h"

namespace ddpm::layout {

/// Cuts a row of units into `stages` runs, none of them empty, so that the most expensive one costs as little as
/// possible. There are as many units as stages at least.
std::vector<Range> balanced_stages(std::span<const double> costs, int64_t stages);

/// One pass of a stage.
struct StagePass {
  bool forward = true;  ///< false: backward
  int64_t micro = 0;    ///< number of the micro-batch that passes

  friend bool operator==(const StagePass&, const StagePass&) = default;
};

/// The order of one forward, one backward (Narayanan et al., 2019): each stage runs ahead by as many forward passes as
/// there are stages after it, and then takes both in turn, so that it keeps the activations of no more micro-batches
/// than that and one. Micro-batches come in their order, forward and backward.
std::vector<StagePass> one_forward_one_backward(int64_t stage, int64_t stages, int64_t micro_batches);

/// The part of a step in which a stage waits, if all of them take equally long: (P - 1) / (M + P - 1).
double pipeline_bubble(int64_t stages, int64_t micro_batches);

}  // namespace ddpm::layout
