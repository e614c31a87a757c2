// The CUDA kernels that repeat pixels, run on the CPU with the grids that a GPU would be given, against ATen.
//
// What stands for CUDA comes before the kernels.
// clang-format off
#include "support/cuda_on_cpu.h"
#include "nn/ops/cuda/repeated_pixels.cuh"
// clang-format on
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <gtest/gtest.h>

#include "nn/ops/cuda/repeated_pixels_tensors.h"

namespace ddpm::nn::test {
namespace {

using ddpm::test::cuda::OnCpu;

TEST(RepeatedPixelsKernels, AreAtens) {
  for (const auto& [n, channels, height, width] : std::vector<std::array<int64_t, 4>>{
           {2, 64, 5, 3}, {1, 8, 1, 9}, {3, 7, 4, 4}, {2, 1, 3, 2}, {1, 24, 2, 1}, {2, 520, 2, 3}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor x = at::randn({n, channels, height, width}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor y = cuda::empty_images(x, 2 * height, 2 * width).fill_(7.0);
      cuda::repeat_pixels(cuda::pixel_repetition(x, y), OnCpu{});
      EXPECT_TRUE(at::equal(y, at::upsample_nearest2d(x, {2 * height, 2 * width})));
      const at::Tensor dy = at::randn(y.sizes()).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor dx = cuda::empty_images(x, height, width).fill_(7.0);
      cuda::sum_repeated_pixels(cuda::pixel_repetition(dy, dx), OnCpu{});
      const at::Tensor wanted = 4 * at::avg_pool2d(dy.to(at::kDouble), 2, 2);
      const double step = type == at::kFloat ? 1e-6 : type == at::kHalf ? 1e-3 : 8e-3;
      EXPECT_LT((dx.to(at::kDouble) - wanted).abs().max().item<double>(), 8 * step) << channels << toString(type);
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::test
