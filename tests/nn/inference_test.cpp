// What UNet2D::prepare_for_inference() makes ready: the same predictions with fewer operations, and none of it where
// gradients are wanted.
#include <algorithm>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "nn/ops/convolution.h"
#include "nn/ops/cpu/kernels.h"
#include "nn/ops/repeated_convolution.h"
#include "nn/ops/resample.h"
#include "nn/ops/winograd.h"
#include "nn/unet2d.h"
#include "nn/waves.h"

namespace ddpm::nn {
namespace {

using test::difference;
using test::waves;

TEST(RepeatedConvolution, IsTheConvolutionOfDoubledPixels) {
  const at::Tensor bias = waves({5}, 2.0);
  for (const int64_t depth : {0, 3}) {
    const auto image = whole_image({.depth = depth, .width = 6});
    const std::vector<int64_t> kernel(depth == 0 ? 2 : 3, 3);
    std::vector<int64_t> shape = {5, 4};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    const at::Tensor weight = waves(shape, 1.3);
    const at::Tensor x = waves({2, 4, 4 * std::max<int64_t>(1, depth), 6}, 0.7);
    const ConvolutionOptions options{.dimensions = depth == 0 ? 2 : 3};
    // The doubled image has twice the layers, which a partition knows by the width.
    const at::Tensor doubled = resample(x, Resampling::up, ResamplingFilter::box, *image);
    const at::Tensor wanted = convolution(doubled, weight, bias, options, *image);
    const at::Tensor seen = repeated_convolution(x, repeated_weight(weight), bias, *image);
    EXPECT_LT(difference(seen, wanted), 1e-5) << "depth " << depth;
  }
}

UNet2DConfig upsampling_model(int64_t dimensions, std::vector<std::string> padding) {
  UNet2DConfig c;
  c.dimensions = dimensions;
  c.padding = std::move(padding);
  c.sample_size = dimensions == 2 ? std::vector<int64_t>{16} : std::vector<int64_t>{8, 8, 8};
  c.block_out_channels = {8, 16, 16};
  c.down_block_types = {"DownBlock2D", "DownBlock2D", "ResnetDownsampleBlock2D"};
  c.up_block_types = {"ResnetUpsampleBlock2D", "UpBlock2D", "UpBlock2D"};
  c.layers_per_block = 1;
  c.norm_num_groups = 4;
  return c;
}

at::Tensor prediction_of(const UNet2D& unet, const at::Tensor& x) {
  return unet.forward(x, at::tensor({3, 700}, at::kLong), {}, RandomContext{});
}

TEST(Inference, APreparedModelPredictsTheSame) {
  struct Case {
    int64_t dimensions;
    std::string padding;
    at::ScalarType dtype;
    double tolerance;
    bool differs;  // in the last bits: it takes another way
  };
  // Winograd's convolution is the same, whether its weights were made ready or not.
  const bool winograd = winograd_serves(at::zeros({16, 16, 3, 3}), 1, {1, 1});
  for (const Case& one : {Case{2, "zeros", at::kFloat, 1e-5, !winograd}, Case{3, "zeros", at::kFloat, 1e-5, true},
                          Case{2, "periodic", at::kFloat, 0.0, false}, Case{2, "zeros", at::kBFloat16, 0.05, true}}) {
    SCOPED_TRACE(fmt::format("{} dimensions, {}, {}", one.dimensions, one.padding, c10::toString(one.dtype)));
    UNet2D unet(upsampling_model(one.dimensions, {one.padding}));
    allocate(unet.parameters(), one.dtype);
    initialize(unet.parameters(), 7);
    const at::Tensor x = waves({2, 3, one.dimensions == 2 ? 16 : 64, one.dimensions == 2 ? 16 : 8}, 0.7);
    const at::Tensor with_gradients = prediction_of(unet, x);
    at::Tensor plain;
    at::Tensor prepared;
    {
      const at::NoGradGuard no_grad;
      plain = prediction_of(unet, x);
      unet.prepare_for_inference();
      prepared = prediction_of(unet, x);
    }
    EXPECT_LE(difference(prepared, plain), one.tolerance);
    if (one.dtype == at::kFloat) {
      EXPECT_EQ(!at::equal(prepared, plain), one.differs);
    }
    EXPECT_TRUE(at::equal(prediction_of(unet, x), with_gradients)) << "with gradients it is the plain model";
    EXPECT_LE(difference(with_gradients, plain), 1e-5);
    if (one.padding == "zeros") {  // attention of periodic images sorts pixels where there are no gradients
      EXPECT_TRUE(at::equal(with_gradients, plain));
    }
  }
}

TEST(Inference, APreparedModelConvolvesByTilesWhereTheProcessorHasThem) {
  for (const int64_t padding : {0, 1}) {
    UNet2DConfig c = upsampling_model(2, {"zeros"});
    c.block_out_channels = {32, 64, 64};
    c.downsample_padding = padding;
    UNet2D unet(c);
    allocate(unet.parameters(), at::kBFloat16);
    initialize(unet.parameters(), 7);
    const at::Tensor x = waves({2, 3, 16, 16}, 0.7).to(at::kBFloat16);
    const at::NoGradGuard no_grad;
    const at::Tensor plain = prediction_of(unet, x);
    unet.prepare_for_inference();
    EXPECT_LT(difference(prediction_of(unet, x).to(at::kFloat), plain.to(at::kFloat)), 0.05) << padding;
  }
}

TEST(Inference, WeightsThatChangedArePreparedAnew) {
  const at::NoGradGuard no_grad;
  UNet2D unet(upsampling_model(2, {"zeros"}));
  allocate(unet.parameters(), at::kFloat);
  initialize(unet.parameters(), 7);
  unet.prepare_for_inference();
  const at::Tensor x = waves({2, 3, 16, 16}, 0.7);
  initialize(unet.parameters(), 8);
  unet.prepare_for_inference();
  UNet2D other(upsampling_model(2, {"zeros"}));
  allocate(other.parameters(), at::kFloat);
  initialize(other.parameters(), 8);
  EXPECT_LT(difference(prediction_of(unet, x), prediction_of(other, x)), 1e-5);
}

// Channels are no multiple of 32: nothing else that is prepared in bfloat16 changes the bits without resampling.
TEST(Inference, APreparedModelAttendsByTilesWhereTheProcessorHasThem) {
  UNet2DConfig c;
  c.sample_size = {16};
  c.block_out_channels = {48};
  c.down_block_types = {"AttnDownBlock2D"};
  c.up_block_types = {"AttnUpBlock2D"};
  c.layers_per_block = 1;
  c.norm_num_groups = 4;
  UNet2D unet(c);
  allocate(unet.parameters(), at::kBFloat16);
  initialize(unet.parameters(), 7);
  const at::Tensor x = waves({2, 3, 16, 16}, 0.7).to(at::kBFloat16);
  const at::Tensor plain = prediction_of(unet, x);
  unet.prepare_for_inference();
  EXPECT_TRUE(at::equal(prediction_of(unet, x), plain)) << "with gradients it is the plain model";
  const at::NoGradGuard no_grad;
  const at::Tensor prepared = prediction_of(unet, x);
  EXPECT_EQ(at::equal(prepared, plain), cpu::tile_kernels() == nullptr);
  EXPECT_LT(difference(prepared.to(at::kFloat), plain.to(at::kFloat)), 0.05);
}

}  // namespace
}  // namespace ddpm::nn
