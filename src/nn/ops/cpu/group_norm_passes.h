// The arithmetic between the kernels of group normalisation: from sums to statistics and coefficients. With
//
//   v = x + shift_before,  x̂ = (v - mean) / σ,  u = x̂ · W + B,  W = weight · (1 + scale),
//   B = bias · (1 + scale) + shift_after,  y = u or silu(u)
//
// and P = Σ du, R = Σ du · x̂ over an image's pixels, the gradients are
//
//   bias: Σ_n (1 + scale) P    weight: Σ_n (1 + scale) R    shift_after: P    scale: weight · R + bias · P
//   x: (W du - mean_g(W P) - x̂ · mean_g(W R)) / σ           shift_before: the same, summed over the pixels
//
// where mean_g is the sum over a group's channels divided by the number of its elements. Where the images are cut into
// tiles, means are those of all tiles, and all other sums are over this tile's pixels.
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/ops/cpu/group_norm_batch.h"

namespace ddpm::nn::cpu {

/// Fills y, like batch.x, and the statistics. Where `branches` has a residual, also batch.x, their sum. `tiles`: empty
/// for whole images.
void norm_forward(const NormBatch& batch, const Branches& branches, double eps, bool in_any_order, const at::Tensor& y,
                  const GatherNumbers& tiles);

/// Gradients of the images are like batch.x, the others float32 like Affine.
struct NormGradients {
  at::Tensor x;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor shift_before;
  at::Tensor scale;
  at::Tensor shift_after;
};

/// dy is like batch.x, and so is `residual_gradient`, which is added to the gradient of x if it is defined; the
/// statistics are those of the forward pass.
NormGradients norm_backward(const NormBatch& batch, const at::Tensor& dy, const at::Tensor& residual_gradient,
                            const GatherNumbers& tiles);

}  // namespace ddpm::nn::cpu
