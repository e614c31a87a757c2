// The bias of convolutions, the joining of channels and repeated pixels as operations of their own, against ATen's and
// their gradients.
#include "nn/ops/channel_bias.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "nn/golden_case.h"
#include "nn/ops/concatenate.h"
#include "nn/ops/repeated_pixels.h"
#include "nn/ops/volume.h"

namespace ddpm::nn::test {
namespace {

/// Images and volumes are channels-last.
at::Tensor leaf(at::IntArrayRef sizes) {
  const at::Tensor values = at::randn(sizes, at::kDouble);
  return (sizes.size() < 4 ? values : values.contiguous(channels_last_order(values))).set_requires_grad(true);
}

void expect_same_gradients(const std::vector<at::Tensor>& leaves, const std::function<at::Tensor()>& ours,
                           const std::function<at::Tensor()>& atens) {
  std::vector<std::vector<at::Tensor>> gradients;
  std::vector<at::Tensor> results;
  for (const auto& compute : {ours, atens}) {
    const at::Tensor y = compute();
    results.push_back(y.detach());
    // A gradient whose rows have gaps, as that of a part of joined channels.
    const at::Tensor dy = y.detach().sin();
    std::vector<int64_t> wide = y.sizes().vec();
    wide[1] += 3;
    const at::Tensor strided = at::zeros(wide, y.options().requires_grad(false)).narrow(1, 2, y.size(1));
    strided.copy_(dy);
    y.backward(strided);
    gradients.emplace_back();
    for (const at::Tensor& x : leaves) {
      gradients.back().push_back(x.grad().clone());
      x.mutable_grad().reset();
    }
  }
  EXPECT_LT(relative_distance(results[0], results[1]), 1e-14);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_LT(relative_distance(gradients[0][i], gradients[1][i]), 1e-13) << "leaf " << i;
  }
}

TEST(ChannelBias, IsThatOfAConvolution) {
  for (const int dimensions : {2, 3}) {
    const bool flat = dimensions == 2;
    const at::Tensor x = flat ? leaf({3, 4, 6, 5}) : leaf({2, 4, 3, 6, 5});
    const at::Tensor weight = flat ? leaf({8, 4, 3, 3}) : leaf({8, 4, 3, 3, 3});
    const at::Tensor bias = leaf({8});
    const auto convolved = [&](const at::Tensor& b) {
      return flat ? at::conv2d(x, weight, b, 1, 1) : at::conv3d(x, weight, b, 1, 1);
    };
    expect_same_gradients(
        {x, weight, bias}, [&] { return add_channel_bias(convolved({}), bias); }, [&] { return convolved(bias); });
  }
}

TEST(ChannelBias, IsAddedWithTwoBranches) {
  const at::Tensor a = leaf({2, 4, 3, 5});
  const at::Tensor b = leaf({2, 4, 3, 5});
  const at::Tensor bias = leaf({4});
  expect_same_gradients(
      {a, b, bias}, [&] { return sum_with_bias(a, b, bias); },
      [&] {
        return a + b + bias.view({4, 1, 1});
      });
}

TEST(ChannelBias, FrozenOnesHaveNoGradient) {
  const at::Tensor x = leaf({2, 4, 3, 3});
  const at::Tensor bias = at::randn({4}, at::kDouble);
  const at::Tensor y = add_channel_bias(x * 2, bias);
  const auto gradients = (*y.grad_fn())({at::ones_like(y)});
  ASSERT_EQ(gradients.size(), 2U);
  EXPECT_FALSE(gradients[1].defined()) << "it would be summed up for nothing";
  y.sum().backward();
  EXPECT_TRUE(x.grad().eq(2).all().item<bool>());
}

TEST(RepeatedPixels, AreAtens) {
  const at::Tensor x = leaf({2, 4, 3, 5});
  expect_same_gradients(
      {x}, [&] { return repeated_pixels(x); },
      [&] {
        return at::upsample_nearest2d(x, {6, 10});
      });
}

TEST(Concatenate, JoinsChannelsAndLeavesTheFirstGradientContiguous) {
  const at::Tensor x = leaf({2, 4, 3, 5});
  const at::Tensor skip = leaf({2, 6, 3, 5});
  expect_same_gradients(
      {x, skip}, [&] { return concatenate(x, skip); },
      [&] {
        return at::cat({x, skip}, 1);
      });
  at::Tensor seen;
  const at::Tensor y = x * 1;
  y.register_hook([&](const at::Tensor& gradient) { seen = gradient; });
  concatenate(y, skip).sum().backward();
  EXPECT_TRUE(seen.is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace ddpm::nn::test
