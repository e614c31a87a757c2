// Periodic axes: convolutions against ATen's circular padding, and models whose prediction moves with the image.
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/roll.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/ops/convolution.h"
#include "nn/unet2d.h"
#include "nn/waves.h"

namespace ddpm::nn {
namespace {

using test::difference;
using test::waves;

TEST(Periodic, ConvolutionsWrapAsCircularPaddingDoes) {
  const at::Tensor x = waves({2, 3, 8, 12}, 0.7).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor weight = waves({5, 3, 3, 3}, 1.3);
  const at::Tensor bias = waves({5}, 2.0);
  for (const auto& [height, width] : {std::pair{true, true}, {true, false}, {false, true}}) {
    const auto image = whole_image({.periodic_height = height, .periodic_width = width});
    for (const int64_t stride : {1, 2}) {
      for (const int64_t before : stride == 2 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1}) {
        at::Tensor padded = x;
        const auto pad = [&](const std::vector<int64_t>& margins, bool periodic) {
          padded = at::pad(padded, margins, periodic ? "circular" : "constant");
        };
        pad({before, 1, 0, 0}, width);
        pad({0, 0, before, 1}, height);
        const at::Tensor wanted = at::conv2d(padded, weight, bias, stride);
        const ConvolutionOptions options{.kernel = 3, .stride = stride, .before = before, .after = 1};
        const at::Tensor seen = convolution(x, weight, bias, options, *image);
        EXPECT_EQ(seen.sizes(), wanted.sizes());
        EXPECT_LT(difference(seen, wanted), 1e-5) << height << width << stride << before;
      }
    }
  }
}

/// What models differ in beside their padding.
struct Kind {
  int64_t downsample_padding = 1;
  ActivationName act_fn = ActivationName::silu;
  TimeScaleShift time = TimeScaleShift::standard;
};

UNet2DConfig small(std::vector<std::string> padding, const Kind& kind = {}) {
  UNet2DConfig c;
  c.sample_size = {16};
  c.block_out_channels = {8, 16, 16};
  c.down_block_types = {"DownBlock2D", "AttnDownBlock2D", "ResnetDownsampleBlock2D"};
  c.up_block_types = {"ResnetUpsampleBlock2D", "AttnUpBlock2D", "UpBlock2D"};
  c.layers_per_block = 1;
  c.norm_num_groups = 4;
  c.downsample_padding = kind.downsample_padding;
  c.act_fn = kind.act_fn;
  c.resnet_time_scale_shift = kind.time;
  c.padding = std::move(padding);
  return c;
}

struct Predicted {
  at::Tensor drawn;  // without gradients
  at::Tensor y;
  at::Tensor gradient;  // of the input
};

/// What a model with initial weights makes of x, and the gradient of a sum with weights that roll with it.
Predicted predict(const UNet2DConfig& config, const at::Tensor& x, const at::Tensor& weights) {
  const UNet2D unet(config);
  allocate(unet.parameters(), at::kFloat);
  initialize(unet.parameters(), 5);
  const at::Tensor input = x.detach().clone().requires_grad_(true);
  const auto forward = [&](const at::Tensor& of) {
    return unet.forward(of, at::full({x.size(0)}, 300, at::kLong), {}, {});
  };
  const at::Tensor y = forward(input);
  (y * weights).sum().backward();
  const at::NoGradGuard no_grad;
  return {forward(x), y.detach(), input.grad()};
}

TEST(Periodic, ThePredictionRollsWithTheImage) {
  const at::Tensor x = waves({2, 3, 16, 16}, 0.37);
  const at::Tensor weights = waves({2, 3, 16, 16}, 0.91);
  for (const Kind& kind :
       {Kind{.downsample_padding = 0}, {}, {.act_fn = ActivationName::mish, .time = TimeScaleShift::scale_shift}}) {
    for (const auto& [padding, axes] :
         {std::pair<std::vector<std::string>, std::vector<int64_t>>{{"periodic", "periodic"}, {2, 3}},
          {{"zeros", "periodic"}, {3}},
          {{"periodic", "zeros"}, {2}}}) {
      const UNet2DConfig config = small(padding, kind);
      const Predicted whole = predict(config, x, weights);
      for (const auto& [axis, shift] : {std::pair<int64_t, int64_t>{2, 8}, {3, 8}, {2, 4}, {3, 4}}) {  // 4: the stride
        const auto rolled = [axis = axis, shift = shift](const at::Tensor& t) { return at::roll(t, {shift}, {axis}); };
        const Predicted seen = predict(config, rolled(x), rolled(weights));
        const double error = difference(seen.y, rolled(whole.y));
        const bool periodic = std::ranges::count(axes, axis) > 0;
        EXPECT_EQ(error < 1e-5, periodic) << error << " along axis " << axis << " by " << shift;
        EXPECT_EQ(at::equal(seen.drawn, rolled(whole.drawn)), periodic) << "along axis " << axis << " by " << shift;
        if (periodic) {
          EXPECT_LT(difference(seen.drawn, seen.y), 1e-5);
          EXPECT_LT(difference(seen.gradient, rolled(whole.gradient)), 1e-4);
        }
      }
    }
  }
}

TEST(Periodic, WithHeadsOfAllSizesToTheBit) {
  const at::Tensor x = waves({3, 3, 16, 24}, 0.41);
  for (const int64_t head_dim : {8, 16, 64, 128}) {
    UNet2DConfig config = small({"periodic", "periodic"});
    config.block_out_channels = {32, 128, 128};
    config.attention_head_dim = head_dim;
    const UNet2D unet(config);
    allocate(unet.parameters(), at::kFloat);
    initialize(unet.parameters(), 5);
    const at::NoGradGuard no_grad;
    const auto predict = [&](const at::Tensor& of) { return unet.forward(of, at::full({3}, 300, at::kLong), {}, {}); };
    const at::Tensor whole = predict(x);
    for (const int64_t shift : {4, 8, 12}) {
      EXPECT_TRUE(at::equal(predict(at::roll(x, {shift, 8}, {2, 3})), at::roll(whole, {shift, 8}, {2, 3}))) << head_dim;
    }
  }
}

TEST(Periodic, FiltersThatReflectAreRefused) {
  UNet2DConfig c = small({"periodic", "zeros"});
  c.down_block_types[0] = "SkipDownBlock2D";
  c.up_block_types[2] = "SkipUpBlock2D";
  try {
    const UNet2D unet(c);
    FAIL() << "built";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("model.padding = [periodic, zeros]: wanted zeros with SkipDownBlock2D"));
  }
  EXPECT_THROW(UNet2D(small({"periodic", "zeros", "zeros"})), base::ConfigError);
  EXPECT_THROW(UNet2D(small({"periodic", "mirror"})), base::ConfigError);
}

}  // namespace
}  // namespace ddpm::nn
