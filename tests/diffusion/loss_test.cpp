// The loss of each image: its value, its gradient and its independence of layout.
#include "diffusion/loss.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "golden.h"

namespace ddpm::test {
namespace {

TEST(Loss, IsTheMeanSquareOfEachImage) {
  const at::Tensor prediction = at::randn({3, 2, 4, 5});
  const at::Tensor target = at::randn({3, 2, 4, 5});
  const at::Tensor losses = diffusion::per_sample_loss(prediction, target);
  ASSERT_EQ(losses.sizes(), at::IntArrayRef({3}));
  ASSERT_EQ(losses.scalar_type(), at::kFloat);
  for (int64_t n = 0; n < 3; ++n) {
    double sum = 0.0;
    const at::Tensor a = prediction[n].contiguous();
    const at::Tensor b = target[n].contiguous();
    for (int64_t i = 0; i < 40; ++i) {
      const double difference = double{a.const_data_ptr<float>()[i]} - double{b.const_data_ptr<float>()[i]};
      sum += difference * difference;
    }
    EXPECT_NEAR(losses[n].item<double>(), sum / 40.0, 1e-6);
  }
}

TEST(Loss, OfTheChannelsIsThatOfTheImageInTheMean) {
  const at::Tensor prediction = at::randn({3, 2, 4, 5});
  const at::Tensor target = at::randn({3, 2, 4, 5});
  const at::Tensor channels = diffusion::per_channel_loss(prediction, target);
  ASSERT_EQ(channels.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_TRUE(at::allclose(channels.mean(1), diffusion::per_sample_loss(prediction, target), 1e-6, 0.0));
  EXPECT_FLOAT_EQ(channels[2][1].item<float>(), (prediction[2][1] - target[2][1]).square().mean().item<float>());

  at::Tensor valid = at::ones({3, 1, 4, 5}, at::kBool);
  valid[1].fill_(false);
  valid[0][0][0].fill_(false);
  const at::Tensor seen = diffusion::per_channel_loss(prediction, target, valid);
  EXPECT_TRUE(at::allclose(seen.mean(1), diffusion::per_sample_loss(prediction, target, valid), 1e-6, 0.0));
  EXPECT_EQ(seen[1].abs().sum().item<float>(), 0.0F);
  const at::Tensor rows = (prediction[0][0] - target[0][0]).slice(0, 1).square();
  EXPECT_FLOAT_EQ(seen[0][0].item<float>(), rows.mean().item<float>());
}

TEST(Loss, IsFloat32ForHalfPredictions) {
  const at::Tensor target = at::full({1, 1, 64, 64}, 0.0F);
  const at::Tensor prediction = at::full({1, 1, 64, 64}, 300.0F).to(at::kHalf);  // its square overflows float16
  EXPECT_FLOAT_EQ(diffusion::per_sample_loss(prediction, target).item<float>(), 90000.0F);
}

TEST(Loss, GradientIsTwiceTheMeanDifference) {
  const at::Tensor prediction = at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  const at::Tensor target = at::randn({2, 3, 4, 4});
  diffusion::per_sample_loss(prediction, target).sum().backward();
  const at::Tensor wanted = (prediction.detach() - target) * (2.0 / 48.0);
  EXPECT_TRUE(at::allclose(prediction.grad(), wanted, 1e-6, 1e-8));
}

TEST(Loss, WeightIsOneWithoutGamma) {
  const diffusion::NoiseSchedule schedule(diffusion::SchedulerConfig{});
  const at::Tensor weight = diffusion::loss_weight(schedule, 0.0, at::tensor({0, 999}, at::TensorOptions(at::kLong)));
  EXPECT_TRUE(at::equal(weight, at::ones({2})));
}

TEST(Loss, MinSnrWeightIsOneWhereNoSignalIsLeft) {
  diffusion::SchedulerConfig config;
  config.beta_end = 0.3;  // float32 has no ᾱ as small as those of the last timesteps
  const diffusion::NoiseSchedule schedule(config);
  ASSERT_EQ(schedule.alpha_cumprod(999), 0.0F);
  const auto t = at::tensor({500, 900, 999}, at::TensorOptions(at::kLong));
  EXPECT_TRUE(at::equal(diffusion::loss_weight(schedule, 5.0, t), at::ones({3})));
}

/// Pure noise teaches the image and v with weight 0.
TEST(Loss, MinSnrLeavesOutALastTimestepWithoutSignal) {
  const auto leaves_out = [](bool without_signal, double gamma, diffusion::PredictionType type) {
    diffusion::DiffusionConfig config;
    config.scheduler.rescale_betas_zero_snr = without_signal;
    config.scheduler.prediction_type = type;
    config.snr_gamma = gamma;
    return diffusion::leaves_out_last_timestep(config);
  };
  using diffusion::PredictionType;
  EXPECT_TRUE(leaves_out(true, 5.0, PredictionType::v_prediction));
  EXPECT_TRUE(leaves_out(true, 5.0, PredictionType::sample));
  EXPECT_FALSE(leaves_out(true, 0.0, PredictionType::v_prediction));
  EXPECT_FALSE(leaves_out(false, 5.0, PredictionType::v_prediction));
  EXPECT_FALSE(leaves_out(true, 5.0, PredictionType::epsilon)) << "configurations of it are refused";
}

}  // namespace
}  // namespace ddpm::test
