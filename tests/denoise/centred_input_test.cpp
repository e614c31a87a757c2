// Models that map their input to 2x - 1 do so before it is rounded, in sampling as in training.
#include <memory>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include "comm/solo_communicator.h"
#include "denoise/sample_inputs.h"
#include "denoise/sampling.h"
#include "diffusion/samplers.h"

namespace ddpm::denoise {
namespace {

LoadedModel small_model(bool center, at::ScalarType dtype) {
  nn::UNet2DConfig c;
  c.center_input_sample = center;
  c.block_out_channels = {8, 8};
  c.down_block_types = {"DownBlock2D", "DownBlock2D"};
  c.up_block_types = {"UpBlock2D", "UpBlock2D"};
  c.layers_per_block = 1;
  c.norm_num_groups = 4;
  LoadedModel model;
  model.unet = std::make_unique<nn::UNet2D>(c);
  nn::allocate(model.unet->parameters(), at::kFloat);
  nn::initialize(model.unet->parameters(), 3);
  prepare_for_sampling(model, dtype);
  model.image.height = model.image.width = 16;
  return model;
}

/// Whether a model that computes in `dtype` draws what its network makes of the same noise, shown images in `shown`.
bool draws_as_shown(bool center, at::ScalarType dtype, at::ScalarType shown) {
  const at::NoGradGuard no_grad;
  const LoadedModel model = small_model(center, dtype);
  const at::Tensor noise = at::sin(at::arange(2 * 3 * 16 * 16, at::kFloat) * 0.83).reshape({2, 3, 16, 16});
  const auto sampler = diffusion::make_sampler({}, {.scheduler = diffusion::SamplerType::ddim, .steps = 2});
  comm::SoloCommunicator world;
  const SampleInputs inputs = SampleInputs::of_set(model, {}, std::nullopt, world, at::kCPU);
  SamplingOptions options;
  options.count = 2;
  BatchSampler batches(
      model, *sampler, inputs, options, [&](int64_t, int64_t) { return noise; }, at::kCPU);
  const at::Tensor wanted = diffusion::sample(*sampler, {}, noise, [&](const at::Tensor& x, const at::Tensor& t) {
    return model.unet->forward(x.to(shown), t, {}, {});
  });
  return at::equal(batches.draw(0, 2, {}), wanted);
}

TEST(CentredInput, IsRoundedAfterwards) {
  EXPECT_TRUE(draws_as_shown(/*center=*/true, at::kBFloat16, at::kFloat));
  EXPECT_FALSE(draws_as_shown(/*center=*/true, at::kBFloat16, at::kBFloat16));
  EXPECT_TRUE(draws_as_shown(/*center=*/true, at::kFloat, at::kFloat));
}

TEST(CentredInput, OtherModelsSeeWhatTheySaw) {
  EXPECT_TRUE(draws_as_shown(/*center=*/false, at::kBFloat16, at::kBFloat16));
  EXPECT_TRUE(draws_as_shown(/*center=*/false, at::kFloat, at::kFloat));
}

}  // namespace
}  // namespace ddpm::denoise
