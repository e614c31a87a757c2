// Winograd's convolution against ATen's, of borders within tiles, repeated pixels and both types; an image's bits do
// not depend on the images beside it.
#include "nn/ops/winograd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "nn/ops/resample.h"
#include "nn/waves.h"

namespace ddpm::nn {
namespace {

using test::difference;
using test::waves;

struct Layer {
  explicit Layer(int64_t in, int64_t out, at::ScalarType dtype = at::kFloat)
      : weight((waves({out, in, 3, 3}, 1.3) / 12.0).to(dtype)), bias(waves({out}, 2.0).to(dtype)) {}

  at::Tensor weight;
  at::Tensor bias;
};

class Winograd : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(winograd_serves(Layer(16, 16).weight, {})); }

 private:
  const at::NoGradGuard no_grad_;
};

TEST_F(Winograd, IsTheConvolutionForAnyBorder) {
  for (const auto& [height, width] : {std::pair{8, 8}, {5, 6}, {7, 13}, {16, 9}}) {
    for (const auto& [in, out] : {std::pair{16, 48}, {48, 16}, {160, 32}}) {
      const Layer layer(in, out);
      const at::Tensor x = waves({3, in, height, width}, 0.7);
      const at::Tensor seen = winograd_convolution(x, winograd_weights(layer.weight, layer.bias), /*repeated=*/false);
      EXPECT_LT(difference(seen, at::conv2d(x, layer.weight, layer.bias, 1, 1)), 3e-5)
          << height << " x " << width << ", " << in << " to " << out;
      EXPECT_TRUE(seen.is_contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

TEST_F(Winograd, RoundsLittleMoreThanAPlainSum) {
  const Layer layer(128, 64);
  const at::Tensor x = waves({2, 128, 16, 16}, 0.7);
  const at::Tensor exact =
      at::conv2d(x.to(at::kDouble), layer.weight.to(at::kDouble), layer.bias.to(at::kDouble), 1, 1);
  const at::Tensor seen = winograd_convolution(x, winograd_weights(layer.weight, layer.bias), /*repeated=*/false);
  const auto error = ((seen.to(at::kDouble) - exact).square().mean() / exact.square().mean()).sqrt().item<double>();
  RecordProperty("error in 1e-9", static_cast<int>(error * 1e9));
  EXPECT_LT(error, 1e-6);
}

TEST_F(Winograd, RepeatsPixelsAsResamplingDoes) {
  const Layer layer(32, 16);
  const at::Tensor x = waves({2, 32, 5, 6}, 0.7);
  const at::Tensor doubled = resample(x, Resampling::up, ResamplingFilter::box, whole_image());
  const WinogradWeights weights = winograd_weights(layer.weight, layer.bias);
  EXPECT_TRUE(at::equal(winograd_convolution(x, weights, true), winograd_convolution(doubled, weights, false)));
}

TEST_F(Winograd, RoundsOnceInBfloat16) {
  const Layer layer(32, 16, at::kBFloat16);
  const at::Tensor x = waves({2, 32, 9, 9}, 0.7).to(at::kBFloat16);
  const at::Tensor seen = winograd_convolution(x, winograd_weights(layer.weight, layer.bias), /*repeated=*/false);
  const at::Tensor wanted = at::conv2d(x.to(at::kFloat), layer.weight.to(at::kFloat), layer.bias.to(at::kFloat), 1, 1);
  EXPECT_EQ(seen.scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(seen.to(at::kFloat), wanted), 0.5 / 128);
}

TEST_F(Winograd, GivesAnImageItsBitsInAnyBatch) {
  const Layer layer(32, 32);
  const WinogradWeights weights = winograd_weights(layer.weight, layer.bias);
  const at::Tensor x = waves({13, 32, 9, 10}, 0.7).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor whole = winograd_convolution(x, weights, /*repeated=*/false);
  for (int64_t image = 0; image < x.size(0); ++image) {
    const at::Tensor alone = winograd_convolution(x.narrow(0, image, 1), weights, /*repeated=*/false);
    EXPECT_TRUE(at::equal(alone, whole.narrow(0, image, 1))) << image;
  }
}

TEST_F(Winograd, ServesWhatItComputesOnly) {
  const Layer layer(16, 16);
  EXPECT_FALSE(winograd_serves(layer.weight, {.stride = 2}));
  EXPECT_FALSE(winograd_serves(layer.weight, {.before = 0}));
  EXPECT_FALSE(winograd_serves(layer.weight, {.bias = false}));
  EXPECT_FALSE(winograd_serves(Layer(16, 24).weight, {}));
  EXPECT_FALSE(winograd_serves(Layer(3, 16).weight, {}));
  EXPECT_FALSE(winograd_serves(layer.weight.to(at::kHalf), {}));
}

}  // namespace
}  // namespace ddpm::nn
