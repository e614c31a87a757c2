// Winograd's convolution and its gradients against ATen's, of borders within tiles, repeated pixels and both types; no
// bits depend on the number of threads, and an image's not on the images beside it.
#include "nn/ops/winograd.h"

#include <array>
#include <exception>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "nn/ops/cpu/kernels.h"
#include "nn/ops/resample.h"
#include "nn/ops/threads.h"
#include "nn/waves.h"

namespace ddpm::nn {
namespace {

using test::difference;
using test::waves;

struct Layer {
  Layer(int64_t in, int64_t out, at::ScalarType dtype = at::kFloat)
      : weight((waves({out, in, 3, 3}, 1.3) / 12.0).to(dtype)), bias(waves({out}, 2.0).to(dtype)) {}
  Layer(at::Tensor of_weight, at::Tensor of_bias) : weight(std::move(of_weight)), bias(std::move(of_bias)) {}

  at::Tensor weight;
  at::Tensor bias;
};

bool serves(const Layer& layer, int64_t stride = 1, const std::vector<int64_t>& padding = {1, 1}) {
  return winograd_serves(layer.weight, stride, padding);
}

class Winograd : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(serves(Layer(16, 16))); }

 private:
  const at::NoGradGuard no_grad_;
};

TEST_F(Winograd, IsTheConvolutionForAnyBorder) {
  for (const auto& [height, width] : {std::pair{8, 8}, {5, 6}, {7, 13}, {16, 9}}) {
    for (const auto& [in, out] : {std::pair{16, 48}, {48, 16}, {160, 32}}) {
      const Layer layer(in, out);
      const at::Tensor x = waves({3, in, height, width}, 0.7);
      const at::Tensor seen = winograd_inference(x, winograd_weights(layer.weight, layer.bias), /*repeated=*/false);
      EXPECT_LT(difference(seen, at::conv2d(x, layer.weight, layer.bias, 1, 1)), 3e-5)
          << height << " x " << width << ", " << in << " to " << out;
      EXPECT_TRUE(seen.is_contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

TEST_F(Winograd, LeavesBFloat16ToProcessorsWithTiles) {
  EXPECT_EQ(serves(Layer(16, 16, at::kBFloat16)), !cpu::multiplies_bfloat16_tiles());
}

TEST_F(Winograd, RoundsLittleMoreThanAPlainSum) {
  const Layer layer(128, 64);
  const at::Tensor x = waves({2, 128, 16, 16}, 0.7);
  const at::Tensor exact =
      at::conv2d(x.to(at::kDouble), layer.weight.to(at::kDouble), layer.bias.to(at::kDouble), 1, 1);
  const at::Tensor seen = winograd_inference(x, winograd_weights(layer.weight, layer.bias), /*repeated=*/false);
  const auto error = ((seen.to(at::kDouble) - exact).square().mean() / exact.square().mean()).sqrt().item<double>();
  RecordProperty("error in 1e-9", static_cast<int>(error * 1e9));
  EXPECT_LT(error, 1e-6);
}

TEST_F(Winograd, RepeatsPixelsAsResamplingDoes) {
  const Layer layer(32, 16);
  const at::Tensor x = waves({2, 32, 5, 6}, 0.7);
  const at::Tensor doubled = resample(x, Resampling::up, ResamplingFilter::box, whole_image());
  const WinogradWeights weights = winograd_weights(layer.weight, layer.bias);
  EXPECT_TRUE(at::equal(winograd_inference(x, weights, true), winograd_inference(doubled, weights, false)));
}

TEST_F(Winograd, RoundsOnceInBfloat16) {
  const Layer layer(32, 16, at::kBFloat16);
  const at::Tensor x = waves({2, 32, 9, 9}, 0.7).to(at::kBFloat16);
  const at::Tensor seen = winograd_inference(x, winograd_weights(layer.weight, layer.bias), /*repeated=*/false);
  const at::Tensor wanted = at::conv2d(x.to(at::kFloat), layer.weight.to(at::kFloat), layer.bias.to(at::kFloat), 1, 1);
  EXPECT_EQ(seen.scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(seen.to(at::kFloat), wanted), 0.5 / 128);
}

TEST_F(Winograd, GivesAnImageItsBitsInAnyBatch) {
  const Layer layer(32, 32);
  const WinogradWeights weights = winograd_weights(layer.weight, layer.bias);
  const at::Tensor x = waves({13, 32, 9, 10}, 0.7).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor whole = winograd_inference(x, weights, /*repeated=*/false);
  for (int64_t image = 0; image < x.size(0); ++image) {
    const at::Tensor alone = winograd_inference(x.narrow(0, image, 1), weights, /*repeated=*/false);
    EXPECT_TRUE(at::equal(alone, whole.narrow(0, image, 1))) << image;
  }
}

TEST_F(Winograd, ServesWhatItComputesOnly) {
  const Layer layer(16, 16);
  EXPECT_FALSE(serves(layer, /*stride=*/2));
  EXPECT_FALSE(serves(layer, 1, {0, 0}));
  EXPECT_FALSE(serves(layer, 1, {1, 1, 1}));
  EXPECT_FALSE(serves(Layer(16, 24)));
  EXPECT_FALSE(serves(Layer(3, 16)));
  EXPECT_FALSE(serves(Layer(16, 16, at::kHalf)));
}

/// Normal numbers: of waves some sums are nearly zero, and have no relative error.
at::Tensor normal(at::IntArrayRef sizes) { return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(7)); }

/// The result for x, and from a normal gradient of it those of x, weight and bias.
template <typename Compute>
std::array<at::Tensor, 4> with_gradients(const Layer& layer, const at::Tensor& images, const Compute& compute) {
  const at::AutoGradMode gradients(true);
  const at::Tensor x = images.detach().requires_grad_();
  const at::Tensor weight = layer.weight.detach().requires_grad_();
  const at::Tensor bias = layer.bias.detach().requires_grad_();
  const at::Tensor y = compute(x, weight, bias);
  y.backward(normal(y.sizes()).to(y.scalar_type()));
  return {y.detach(), x.grad(), weight.grad(), bias.grad()};
}

at::Tensor by_winograd(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return winograd_convolution(x, weight, bias);
}

at::Tensor by_aten(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::conv2d(x, weight, bias, 1, 1);
}

double relative_error(const at::Tensor& seen, const at::Tensor& exact) {
  return ((seen.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

TEST_F(Winograd, HasTheGradientsOfAConvolution) {
  for (const auto& [height, width] : {std::pair{8, 8}, {5, 6}, {7, 13}, {16, 9}}) {
    for (const auto& [in, out] : {std::pair{16, 48}, {48, 16}, {160, 32}}) {
      const Layer layer(in, out);
      const at::Tensor x = normal({3, in, height, width});
      const Layer exact{layer.weight.to(at::kDouble), layer.bias.to(at::kDouble)};
      const auto wanted = with_gradients(exact, x.to(at::kDouble), by_aten);
      const auto seen = with_gradients(layer, x, by_winograd);
      for (std::size_t i = 0; i < seen.size(); ++i) {
        EXPECT_LT(relative_error(seen[i], wanted[i]), 2e-6)
            << height << " x " << width << ", " << in << " to " << out << ": " << i;
      }
    }
  }
}

TEST_F(Winograd, TakesWeightsInAnyOrder) {
  Layer layer(32, 48);
  const at::Tensor x = normal({2, 32, 9, 6});
  const auto wanted = with_gradients(layer, x, by_winograd);
  layer.weight = layer.weight.contiguous(at::MemoryFormat::ChannelsLast);
  const auto seen = with_gradients(layer, x, by_winograd);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << i;
}

TEST_F(Winograd, RoundsGradientsOnceInBfloat16) {
  const Layer layer(32, 16, at::kBFloat16);
  const Layer wide{layer.weight.to(at::kFloat), layer.bias.to(at::kFloat)};
  const at::Tensor x = normal({2, 32, 9, 9}).to(at::kBFloat16);
  const auto wanted = with_gradients(wide, x.to(at::kFloat), by_winograd);
  const auto seen = with_gradients(layer, x, by_winograd);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].scalar_type(), at::kBFloat16);
    EXPECT_LT(relative_error(seen[i], wanted[i].to(at::kDouble)), 4e-3) << i;
  }
}

TEST_F(Winograd, GivesTheSameBitsToAnyNumberOfThreads) {
  const Layer layer(32, 80);
  const at::Tensor x = normal({150, 32, 9, 10});  // 1,350 tiles: three parts of the weight's gradient
  const auto with_threads = [&](int count) {
    const test::Threads threads(count);
    return with_gradients(layer, x, by_winograd);
  };
  const auto alone = with_threads(1);
  const auto together = with_threads(3);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(at::equal(alone[i], together[i])) << i;
}

TEST_F(Winograd, TakesGradientsInAnyOrder) {
  const Layer layer(16, 32);
  const at::Tensor x = normal({2, 16, 7, 8});
  const auto plain = [&](const at::Tensor& dy) { return winograd_backward(dy, x, layer.weight, {true, true, true}); };
  const at::Tensor ones = at::ones({2, 32, 7, 8});
  const auto wanted = plain(ones.contiguous(at::MemoryFormat::ChannelsLast));
  const auto expanded = plain(at::ones({1}).expand(ones.sizes()));
  const auto rows = plain(ones);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::equal(expanded[i], wanted[i])) << i;
    EXPECT_TRUE(at::equal(rows[i], wanted[i])) << i;
  }
}

TEST_F(Winograd, ComputesTheGradientsThatAreWanted) {
  const Layer layer(16, 32);
  const at::Tensor x = normal({2, 16, 7, 8});
  const at::Tensor dy = normal({2, 32, 7, 8});
  const auto all = winograd_backward(dy, x, layer.weight, {true, true, true});
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::array<bool, 3> wanted = {};
    wanted[i] = true;
    const auto one = winograd_backward(dy, x, layer.weight, wanted);
    for (std::size_t k = 0; k < all.size(); ++k) EXPECT_EQ(one[k].defined(), k == i);
    EXPECT_TRUE(at::equal(one[i], all[i])) << i;
  }
}

TEST_F(Winograd, NeedsNoBias) {
  const Layer layer(16, 32);
  const at::Tensor x = normal({2, 16, 7, 8});
  const at::Tensor zeros = at::zeros({32});
  EXPECT_TRUE(at::equal(winograd_convolution(x, layer.weight, {}), winograd_convolution(x, layer.weight, zeros)));
}

TEST_F(Winograd, ComputesNoImages) {
  const auto seen = with_gradients(Layer(16, 32), normal({0, 16, 7, 8}), by_winograd);
  EXPECT_EQ(seen[0].sizes(), at::IntArrayRef({0, 32, 7, 8}));
  EXPECT_TRUE(at::equal(seen[2], at::zeros({32, 16, 3, 3})));
}

TEST_F(Winograd, RefusesOtherTypes) {
  const Layer layer(16, 32);
  const at::Tensor x = normal({2, 16, 7, 8});
  EXPECT_FALSE(takes_winograd(x.to(at::kDouble), layer.weight, 1, {1, 1}));
  EXPECT_THROW((void)winograd_convolution(x.to(at::kDouble), layer.weight, layer.bias), std::exception);
  EXPECT_THROW((void)winograd_backward(normal({2, 32, 7, 8}).to(at::kDouble), x, layer.weight, {true, true, true}),
               std::exception);
}

TEST_F(Winograd, SumsTheGradientOfManyTilesInParts) {
  const Layer layer(16, 16);
  const at::Tensor x = normal({40, 16, 40, 40});  // 4,000 tiles: more than two parts of 1,820
  const Layer exact{layer.weight.to(at::kDouble), layer.bias.to(at::kDouble)};
  const auto wanted = with_gradients(exact, x.to(at::kDouble), by_aten);
  const auto seen = with_gradients(layer, x, by_winograd);
  EXPECT_LT(relative_error(seen[2], wanted[2]), 2e-6);
}

}  // namespace
}  // namespace ddpm::nn
