// The sum of the rows of a matrix: the gradient of a bias. It is an operator of LibTorch's dispatcher, in the namespace
// "ddpm": libddpm_cuda.so has it for CUDA (nn/ops/cuda/column_sums.cu), where ATen's sum over rows as many as the
// pixels of a batch takes three times as long as reading them.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// rows [M, C] -> [C], in the dtype of rows; sums are float32 or wider, in an order that follows from the sizes.
at::Tensor column_sums(const at::Tensor& rows);

}  // namespace ddpm::nn
