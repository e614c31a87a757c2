// nn/ops/channel_bias.h's operator on CUDA tensors.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "nn/ops/cuda/channel_bias_tensors.h"

namespace ddpm::nn::cuda {
namespace {

void add_channel_bias(const at::Tensor& sum, const at::Tensor& a, const std::optional<at::Tensor>& b,
                      const at::Tensor& bias) {
  if (a.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(a.device());
  start_bias_addition(bias_addition(sum, a, b, bias), c10::cuda::getCurrentCUDAStream());
}

TORCH_LIBRARY_IMPL(ddpm, CUDA, m) { m.impl("add_bias_", add_channel_bias); }

}  // namespace
}  // namespace ddpm::nn::cuda
