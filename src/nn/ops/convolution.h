// Two-dimensional convolution of images that may be cut into bands of rows.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/partition.h"

namespace ddpm::nn {

struct ConvolutionOptions {
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t before = 1;  ///< rows and columns of zeros above and left
  int64_t after = 1;   ///< rows and columns of zeros below and right
};

/// x [N, C, H, W], weight [O, C, kernel, kernel], bias [O]; H and W are multiples of the stride.
/// Result [N, O, H / stride, W / stride].
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionOptions& options, const Partition& partition);

}  // namespace ddpm::nn
