// Convolution of flat images of bfloat16 with a kernel of 3 x 3 and a border of zeros, for what is drawn, on processors
// that multiply tiles (AMX). Sums are float32, and rounded once. The bits of an image depend neither on the number of
// threads nor on the images beside it. It has no gradient.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/ops/convolution.h"

namespace ddpm::nn {

/// What is made of a weight once. Undefined tensors: nothing was.
struct TileWeights {
  at::Tensor values;  ///< bfloat16, in the order of cpu::TileConvolution
  at::Tensor bias;    ///< [O] in float32
  int64_t in = 0;     ///< channels of x
  int64_t stride = 1;
  int64_t before = 1;     ///< rows and columns of zeros above and left
  bool repeated = false;  ///< for x with each pixel twice along each axis
};

/// Whether the processor has the kernels, and the convolution is one that they compute: channels in multiples of 32,
/// and a stride of 1 or 2. weight [O, C, ...].
bool tile_convolution_serves(const at::Tensor& weight, const ConvolutionOptions& options);

/// weight [O, C, 3, 3], bias [O] or undefined. `repeated` wants a stride of 1.
TileWeights tile_weights(const at::Tensor& weight, const at::Tensor& bias, const ConvolutionOptions& options,
                         bool repeated);

/// x [N, C, H, W] -> [N, O, H / stride, W / stride], or with weights.repeated [N, O, 2 H, 2 W]. H and W are multiples
/// of the stride.
at::Tensor tile_convolution(const at::Tensor& x, const TileWeights& weights);

}  // namespace ddpm::nn
