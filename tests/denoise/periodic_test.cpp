// Samples of models with periodic axes: they move with the noise that they are drawn from.
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include "base/named.h"
#include "diffusion/sampler.h"
#include "diffusion/samplers.h"
#include "nn/unet2d.h"

namespace ddpm::denoise {
namespace {

struct Torus {
  std::string level;  ///< blocks at the lower resolution: "" or Attn
  nn::ActivationName act_fn = nn::ActivationName::silu;
  nn::TimeScaleShift time = nn::TimeScaleShift::standard;
};

nn::UNet2DConfig config_of(const Torus& torus) {
  const std::string& level = torus.level;
  nn::UNet2DConfig c;
  c.sample_size = {32};
  c.in_channels = 2;
  c.out_channels = 2;
  c.block_out_channels = {16, 32};
  c.down_block_types = {"DownBlock2D", level + "DownBlock2D"};
  c.up_block_types = {level + "UpBlock2D", "UpBlock2D"};
  c.add_attention = !level.empty();
  c.norm_num_groups = 4;
  c.act_fn = torus.act_fn;
  c.resnet_time_scale_shift = torus.time;
  c.padding = {"periodic", "periodic"};
  return c;
}

at::Tensor drawn(const nn::UNet2D& unet, const at::Tensor& noise) {
  const auto sampler = diffusion::make_sampler({}, {.scheduler = diffusion::SamplerType::ddim, .steps = 10});
  return diffusion::sample(*sampler, {}, noise,
                           [&](const at::Tensor& x, const at::Tensor& t) { return unet.forward(x, t, {}, {}); });
}

/// How far the sample of rolled noise lies from the rolled sample, relative to its greatest value.
double difference(const Torus& torus, int64_t rows, int64_t columns) {
  const nn::UNet2D unet(config_of(torus));
  nn::allocate(unet.parameters(), at::kFloat);
  nn::initialize(unet.parameters(), 3);
  const at::Tensor noise = at::sin(at::arange(2 * 2 * 32 * 32, at::kFloat) * 0.83).reshape({2, 2, 32, 32});
  const auto rolled = [&](const at::Tensor& t) { return at::roll(t, {rows, columns}, {2, 3}); };
  const at::Tensor sample = rolled(drawn(unet, noise));
  return ((drawn(unet, rolled(noise)) - sample).abs().max() / sample.abs().max()).item<double>();
}

TEST(Periodic, RolledNoiseGivesTheRolledSample) {
  // 2 is the total stride. The statistics of norms are float64 sums here, whose order is lost when they are rounded.
  for (const auto& [rows, columns] : {std::pair{16, 0}, {2, 0}, {0, 2}, {16, 2}, {6, 26}, {30, 30}}) {
    EXPECT_EQ(difference({""}, rows, columns), 0.0) << rows << ", " << columns;
  }
  // With gradients, attention adds over all pixels in float32, and the steps of an untrained model magnify what another
  // order leaves.
  EXPECT_LT(difference({"Attn"}, 16, 6), 1e-3);
}

TEST(Periodic, WithAnyActivationAndModulationToTheBit) {
  const at::NoGradGuard no_grad;
  using Act = nn::ActivationName;
  using Time = nn::TimeScaleShift;
  for (const auto& [act_fn, time] : {std::pair{Act::silu, Time::scale_shift},
                                     {Act::mish, Time::standard},
                                     {Act::gelu, Time::scale_shift},
                                     {Act::relu, Time::standard}}) {
    EXPECT_EQ(difference({"Attn", act_fn, time}, 16, 6), 0.0) << base::name_of(act_fn);
  }
}

}  // namespace
}  // namespace ddpm::denoise
