// Each pixel twice along both axes, on CUDA, where ATen's kernels take two to three times as long as memory does. They
// are operators of LibTorch's dispatcher, in the namespace "ddpm"; libddpm_cuda.so has them for CUDA
// (nn/ops/cuda/repeated_pixels.cu). Those for CPUs serve tests.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// x [N, C, H, W] -> [N, C, 2 H, 2 W], channels-last.
at::Tensor repeated_pixels(const at::Tensor& x);

}  // namespace ddpm::nn
