// What the CUDA kernels of group normalisation are given. All pointers are to device memory; images are contiguous
// channels-last.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_plan.h"

namespace ddpm::nn::cuda {

/// [images, channels], or [channels] with image_stride 0, in any dtype; null: absent.
struct Values {
  const void* data;
  ElementType type;
  int64_t image_stride;
};

/// Such an array that a kernel writes.
struct Results {
  void* data;
  ElementType type;
  int64_t image_stride;
};

struct NormBatch {
  NormGrid grid;
  const void* x;
  Values weight;
  Values bias;
  Values shift_before;
  Values scale;
  Values shift_after;
  float* mean;  ///< [images, groups], written by forward
  float* rstd;
};

/// The moments of a cell (see NormGrid), with v = x + shift_before.
struct CellMoments {
  double mean;
  double squares;  ///< Σ (v - mean)²
};

/// The two parts of a residual connection: x = addend + residual, taken by the kernel that reads them. All null: none.
struct NormAddition {
  const void* addend;
  const void* residual;
  void* x;  ///< the batch's, written
};

struct NormForward {
  NormPlan plan;
  ElementType type;  ///< element type of x and y
  bool silu;
  NormBatch batch;
  NormAddition addition;
  float eps;
  void* y;
  CellMoments* cells;  ///< workspace: plan.grid.cells() of them in two passes, none in one
};

/// The sums of a cell: Σ W du and Σ W du x̂ (see group_norm_backward.cuh).
struct CellSums {
  float p;
  float r;
};

/// The gradients of a channel's weight and bias, or what some images give to them.
struct ParameterGradients {
  double weight;
  double bias;
};

struct NormGradients {
  Results weight;
  Results bias;
  Results shift_before;
  Results scale;
  Results shift_after;
};

/// Sums per image, chunk and channel: Σ du, Σ du x̂, Σ x̂.
// NOLINTNEXTLINE(readability-identifier-naming): they are used as constants
enum NormSum : int { kSumP, kSumR, kSumX, kNormSums };

struct NormBackward {
  NormPlan plan;
  ElementType type;  ///< element type of x, dy and dx
  bool silu;
  NormBatch batch;
  const void* dy;
  const void* residual_gradient;  ///< added to dx; null: absent
  void* dx;
  NormGradients gradients;
  CellSums* cells;  ///< workspace: plan.grid.cells() of them
  float* sums;      ///< workspace: [images, chunks, kNormSums, channels]
  /// Workspace: [plan::parameter_rows(), channels] of the gradients of weight and bias; null where there is one row.
  ParameterGradients* parameter_rows;
};

}  // namespace ddpm::nn::cuda
