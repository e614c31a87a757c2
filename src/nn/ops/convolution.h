// Convolution of images, which may be cut into tiles, and of volumes, whose layers lie one below the other.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/partition.h"

namespace ddpm::nn {

struct ConvolutionOptions {
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t before = 1;  ///< rows and columns of zeros above and left, and layers in front
  int64_t after = 1;   ///< rows and columns of zeros below and right, and layers behind
  bool bias = true;
  int dimensions = 2;  ///< 3: of volumes
};

/// 1 x 1: a linear layer on the channels of each pixel.
constexpr ConvolutionOptions pointwise(int dimensions) {
  return {.kernel = 1, .stride = 1, .before = 0, .after = 0, .dimensions = dimensions};
}

/// x [N, C, H, W], weight [O, C, kernel, kernel], bias [O] or undefined; H and W are multiples of the stride.
/// Result [N, O, H / stride, W / stride]. Of volumes x is [N, C, D · H, W] (Partition::depth() tells D), the weight has
/// a third side, and the result is [N, O, D / stride · H / stride, W / stride].
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionOptions& options, const Partition& partition);

}  // namespace ddpm::nn
