// Convolution of flat images with a kernel of 3 x 3 and a border of zeros, without gradients, on the CPU: a quarter of
// the products, by Winograd's minimal filtering F(4 x 4, 3 x 3).
//
// Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016. Weights and tiles of the image are
// evaluated at the points 0, ±3/4, ±3/2 and ∞ along each axis; products there, summed over channels, give the result's
// tiles. It rounds other intermediate values than a plain sum: in float32 twice as much (four times with the paper's
// points 0, ±1, ±2 and ∞, whose powers lie further apart). An image's bits do not depend on the images beside it.
// Training does not use it.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/ops/convolution.h"

namespace ddpm::nn {

/// What is computed from the weights once. Undefined tensors: nothing was.
struct WinogradWeights {
  at::Tensor points;  ///< float32, four times the elements of the weight
  at::Tensor bias;    ///< [O] in float32
};

/// Whether the processor has kernels that pay, and the convolution is one that they compute: float32 or bfloat16, and
/// channels in multiples of 16.
bool winograd_serves(const at::Tensor& weight, const ConvolutionOptions& options);

/// weight [O, C, 3, 3], bias [O].
WinogradWeights winograd_weights(const at::Tensor& weight, const at::Tensor& bias);

/// x [N, C, H, W] -> [N, O, H, W], or of x with each pixel twice along each axis [N, O, 2 H, 2 W]; in the type of x.
at::Tensor winograd_convolution(const at::Tensor& x, const WinogradWeights& weights, bool repeated);

/// Whether images of height x width have so many tiles that it pays.
constexpr bool winograd_pays(int64_t height, int64_t width) { return height > 4 && width > 4; }

}  // namespace ddpm::nn
