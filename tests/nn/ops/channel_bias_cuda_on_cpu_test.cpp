// The CUDA kernel that adds a bias, run on the CPU with the grid that a GPU would be given, against ATen.
//
// What stands for CUDA comes before the kernel.
// clang-format off
#include "support/cuda_on_cpu.h"
#include "nn/ops/cuda/channel_bias.cuh"
// clang-format on
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "nn/ops/cuda/channel_bias_tensors.h"

namespace ddpm::nn::test {
namespace {

using ddpm::test::cuda::OnCpu;

TEST(ChannelBiasKernel, AddsAsFloat32AndRoundsOnce) {
  for (const auto& [n, channels, side] :
       std::vector<std::array<int64_t, 3>>{{2, 64, 9}, {1, 8, 40}, {3, 7, 5}, {2, 1, 3}, {1, 24, 1}, {2, 520, 4}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto images = [&, c = channels, count = n, s = side] {
        return at::randn({count, c, s, s}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      };
      const at::Tensor a = images();
      const at::Tensor b = images();
      const at::Tensor bias = at::randn({channels}).to(type);
      const at::Tensor added = a.to(at::kFloat) + bias.to(at::kFloat).view({-1, 1, 1});
      const at::Tensor sum = at::zeros_like(a);
      cuda::add_bias(cuda::bias_addition(sum, a, b, bias), OnCpu{});
      // The order of three float32 additions is the kernel's own.
      EXPECT_TRUE(
          at::equal(sum, (a.to(at::kFloat) + b.to(at::kFloat) + bias.to(at::kFloat).view({-1, 1, 1})).to(type)));
      cuda::add_bias(cuda::bias_addition(a, a, std::nullopt, bias), OnCpu{});
      EXPECT_TRUE(at::equal(a, added.to(type))) << channels << " channels in place";
    }
  }
}

TEST(ChannelBiasKernel, TakesVolumesAndAddressesThatDoNotDivide) {
  const at::Tensor memory = at::randn({1 + 2 * 8 * 3 * 4 * 5});
  const at::Tensor a = memory.narrow(0, 1, 2 * 8 * 3 * 4 * 5).view({2, 3, 4, 5, 8}).movedim(-1, 1);
  const at::Tensor bias = at::randn({8});
  EXPECT_EQ(cuda::bias_addition(a, a, std::nullopt, bias).vector, 1);
  const at::Tensor wanted = a + bias.view({-1, 1, 1, 1});
  cuda::add_bias(cuda::bias_addition(a, a, std::nullopt, bias), OnCpu{});
  EXPECT_TRUE(at::equal(a, wanted));
}

}  // namespace
}  // namespace ddpm::nn::test
