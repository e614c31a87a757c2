// Volumes, whose layers lie one below the other: convolutions and resampling against ATen's of three dimensions, models
// whose prediction moves with the volume, initial values and operations.
#include "nn/ops/volume.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/roll.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/steady_products.h"
#include "nn/ops/as_on_cuda.h"
#include "nn/ops/convolution.h"
#include "nn/ops/resample.h"
#include "nn/unet2d.h"
#include "nn/waves.h"

namespace ddpm::nn {
namespace {

using test::difference;
using test::waves;

constexpr int64_t kDepth = 4;
constexpr int64_t kHeight = 8;
constexpr int64_t kWidth = 12;

/// The start of a program of ddpm, which comes before its first product.
class SteadyProducts : public testing::Environment {
  void SetUp() override { device::keep_products_steady(); }
};
[[maybe_unused]] const auto* const kSteadyProducts = testing::AddGlobalTestEnvironment(new SteadyProducts);

at::Tensor volume() { return waves({2, 3, kDepth, kHeight, kWidth}, 0.7).contiguous(at::MemoryFormat::ChannelsLast3d); }

void expect_convolutions() {
  const at::Tensor weight = waves({5, 3, 3, 3, 3}, 1.3);
  const at::Tensor bias = waves({5}, 2.0);
  for (int periodic = 0; periodic < 8; ++periodic) {
    const bool front = (periodic & 4) != 0;
    const bool height = (periodic & 2) != 0;
    const bool width = (periodic & 1) != 0;
    const auto image = whole_image({.depth = kDepth,
                                    .width = kWidth,
                                    .periodic_depth = front,
                                    .periodic_height = height,
                                    .periodic_width = width});
    for (const int64_t stride : {1, 2}) {
      for (const int64_t before : stride == 2 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1}) {
        at::Tensor padded = volume();
        const int64_t after = 1;
        padded = at::pad(padded, {before, after, 0, 0, 0, 0}, width ? "circular" : "constant");
        padded = at::pad(padded, {0, 0, before, after, 0, 0}, height ? "circular" : "constant");
        padded = at::pad(padded, {0, 0, 0, 0, before, after}, front ? "circular" : "constant");
        const at::Tensor wanted = at::conv3d(padded, weight, bias, stride);
        const ConvolutionOptions options{.kernel = 3, .stride = stride, .before = before, .after = 1, .dimensions = 3};
        const at::Tensor seen = convolution(image_of_volume(volume()), weight, bias, options, *image);
        EXPECT_TRUE(seen.is_contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_LT(difference(volume_of(seen, wanted.size(2)), wanted), 1e-5) << periodic << stride << before;
      }
    }
  }
}

TEST(Volume, ConvolutionsAreThoseOfThreeDimensions) {
  expect_convolutions();
  const AsOnCuda as_on_cuda;
  expect_convolutions();
}

TEST(Volume, ResamplingIsThatOfThreeDimensions) {
  const auto image = whole_image({.depth = kDepth, .width = kWidth});
  const at::Tensor x = image_of_volume(volume());
  const at::Tensor half = resample(x, Resampling::down, ResamplingFilter::box, *image);
  EXPECT_LT(difference(volume_of(half, kDepth / 2), at::avg_pool3d(volume(), 2)), 1e-6);
  const at::Tensor twice = resample(half, Resampling::up, ResamplingFilter::box, *image);
  const at::Tensor wanted = volume_of(half, kDepth / 2).repeat_interleave(2, 2).repeat_interleave(2, 3);
  EXPECT_TRUE(at::equal(volume_of(twice, kDepth), wanted.repeat_interleave(2, 4)));
}

UNet2DConfig small(const std::string& padding) {
  UNet2DConfig c;
  c.dimensions = 3;
  c.sample_size = {kDepth, kHeight, kWidth};
  c.block_out_channels = {8, 16, 16};
  c.down_block_types = {"DownBlock2D", "AttnDownBlock2D", "ResnetDownsampleBlock2D"};
  c.up_block_types = {"ResnetUpsampleBlock2D", "AttnUpBlock2D", "UpBlock2D"};
  c.layers_per_block = 1;
  c.norm_num_groups = 4;
  c.padding = {padding};
  return c;
}

TEST(Volume, ThePredictionRollsWithAPeriodicVolume) {
  for (const char* padding : {"zeros", "periodic"}) {
    const UNet2D unet(small(padding));
    allocate(unet.parameters(), at::kFloat);
    initialize(unet.parameters(), 5);
    const auto predict = [&](const at::Tensor& x) {
      const at::NoGradGuard no_grad;
      return volume_of(unet.forward(image_of_volume(x), at::full({2}, 300, at::kLong), {}, {}), kDepth);
    };
    const at::Tensor whole = predict(volume());
    for (const int64_t axis : {2, 3, 4}) {
      const auto rolled = [axis](const at::Tensor& t) { return at::roll(t, {4}, {axis}); };
      const at::Tensor seen = predict(rolled(volume()));
      EXPECT_EQ(at::equal(seen, rolled(whole)), std::string(padding) == "periodic" || axis == 2)
          << padding << axis << difference(seen, rolled(whole));
    }
  }
}

TEST(Volume, WeightsHaveAThirdSideAndItsInitialBound) {
  const UNet2D unet(small("zeros"));
  for (const Parameter* p : unet.parameters()) {
    if (p->name == "conv_in.weight") {
      EXPECT_THAT(p->shape, testing::ElementsAre(8, 3, 3, 3, 3));
      EXPECT_DOUBLE_EQ(p->init.scale, 1.0 / std::sqrt(81.0));
    }
    if (p->name == "conv_in.bias") {
      EXPECT_DOUBLE_EQ(p->init.scale, 1.0 / std::sqrt(81.0));
    }
  }
  UNet2DConfig flat = small("zeros");
  flat.dimensions = 2;
  flat.sample_size = {kHeight, kWidth};
  const double deep = unet.operations(image_size(unet.config())).all;
  const double wide = UNet2D(flat).operations(image_size(flat)).all;
  EXPECT_GT(deep, 2.0 * kDepth * wide);
  EXPECT_LT(deep, 4.0 * kDepth * wide);
}

TEST(Volume, WhatDoesNotFitIsRefused) {
  const auto refusal = [](const std::function<void(UNet2DConfig&)>& change) {
    UNet2DConfig c = small("zeros");
    change(c);
    try {
      const UNet2D unet(c);
    } catch (const base::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](UNet2DConfig& /*c*/) {}), "");
  EXPECT_EQ(refusal([](UNet2DConfig& c) { c.down_block_types[0] = "SkipDownBlock2D"; }),
            "model.dimensions = 3: wanted 2 with SkipDownBlock2D, whose filters are flat");
  EXPECT_THAT(refusal([](UNet2DConfig& c) { c.sample_size = {8, 8}; }), testing::HasSubstr("depth, height and width"));
  EXPECT_THAT(refusal([](UNet2DConfig& c) { c.padding = {"zeros", "zeros"}; }), testing::HasSubstr("one, or 3"));
  EXPECT_THAT(refusal([](UNet2DConfig& c) { c.dimensions = 4; }), testing::HasSubstr("model.dimensions = 4"));
}

}  // namespace
}  // namespace ddpm::nn
