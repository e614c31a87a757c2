// nn/ops/repeated_pixels.h's operators on CUDA tensors.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "nn/ops/cuda/repeated_pixels_tensors.h"

namespace ddpm::nn::cuda {
namespace {

at::Tensor repeat_on_cuda(const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor y = empty_images(x, 2 * x.size(2), 2 * x.size(3));
  if (x.numel() > 0) start_pixel_repetition(pixel_repetition(x, y), c10::cuda::getCurrentCUDAStream());
  return y;
}

at::Tensor sum_on_cuda(const at::Tensor& dy) {
  const c10::cuda::CUDAGuard guard(dy.device());
  at::Tensor dx = empty_images(dy, dy.size(2) / 2, dy.size(3) / 2);
  if (dx.numel() > 0) start_pixel_sums(pixel_repetition(dy, dx), c10::cuda::getCurrentCUDAStream());
  return dx;
}

TORCH_LIBRARY_IMPL(ddpm, CUDA, m) {
  m.impl("repeat_pixels", repeat_on_cuda);
  m.impl("sum_repeated_pixels", sum_on_cuda);
}

}  // namespace
}  // namespace ddpm::nn::cuda
