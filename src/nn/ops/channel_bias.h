// The bias of convolutions on CUDA, whose gradient ATen sums up at a third of the memory's speed. A gradient that is
// not contiguous becomes so here: ATen would copy it once for each of the convolution's own gradients.
//
// The sums are operators of LibTorch's dispatcher, in the namespace "ddpm"; libddpm_cuda.so has them for CUDA
// (nn/ops/cuda/channel_bias.cu). Those for CPUs serve tests, in an AsOnCuda: there, convolutions add their bias
// themselves.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// Adds bias [C] to y, [N, C, H, W] or [N, C, D, H, W] in channels-last order, in place; the result is y.
at::Tensor add_channel_bias(const at::Tensor& y, const at::Tensor& bias);

/// bias, or zeros if it is undefined, one for each output of weight [O, ...]: autograd's functions take no undefined
/// tensor.
at::Tensor bias_or_zeros(const at::Tensor& bias, const at::Tensor& weight);

/// a + b + bias, of images [N, C, H, W] in channels-last order, rounded once.
at::Tensor sum_with_bias(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

}  // namespace ddpm::nn
