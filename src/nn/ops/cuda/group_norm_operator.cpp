// Group normalisation's operators on CUDA tensors: see nn/ops/group_norm_operator.h.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "nn/ops/cuda/group_norm_tensors.h"

namespace ddpm::nn::cuda {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after, int64_t groups,
    double eps, bool silu) {
  const c10::cuda::CUDAGuard guard(addend.device());
  return group_norm_forward_tensors(
      addend, residual, weight, bias, shift_before, scale, shift_after, groups, eps, silu,
      [](const NormForward& f) { start_group_norm_forward(f, c10::cuda::getCurrentCUDAStream()); });
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& dy, const OptionalTensor& residual_gradient, const at::Tensor& x, const at::Tensor& weight,
    const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& mean, const at::Tensor& rstd, bool silu) {
  const c10::cuda::CUDAGuard guard(x.device());
  return group_norm_backward_tensors(
      dy, residual_gradient, x, weight, bias, shift_before, scale, shift_after, mean, rstd, silu,
      [](const NormBackward& b) { start_group_norm_backward(b, c10::cuda::getCurrentCUDAStream()); });
}

TORCH_LIBRARY_IMPL(ddpm, CUDA, m) {
  m.impl("group_norm_silu", forward);
  m.impl("group_norm_silu_backward", backward);
}

}  // namespace
}  // namespace ddpm::nn::cuda
