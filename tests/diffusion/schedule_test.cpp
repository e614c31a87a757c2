// Noise schedules, noising and targets against diffusers' DDPMScheduler.
#include "diffusion/schedule.h"

#include <cmath>
#include <utility>

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "base/error.h"
#include "diffusion/loss.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::NoiseSchedule;
using diffusion::SchedulerConfig;

at::Tensor images(const base::Json& numbers, int64_t count) { return floats(numbers).view({count, 1, 1, -1}); }

// This is torch.linspace() with one step.
TEST(Schedule, OfOneTimestepHoldsTheFirstBeta) {
  SchedulerConfig config{.num_train_timesteps = 1};
  EXPECT_FLOAT_EQ(NoiseSchedule(config).betas().item<float>(), 1e-4F);
  config.beta_schedule = diffusion::BetaSchedule::scaled_linear;
  EXPECT_FLOAT_EQ(NoiseSchedule(config).betas().item<float>(), 1e-4F);
  config.beta_schedule = diffusion::BetaSchedule::sigmoid;
  EXPECT_FLOAT_EQ(NoiseSchedule(config).betas().item<float>(), 1e-4F + 0.0199F / (1.0F + std::exp(6.0F)));
}

TEST(Schedule, AgreesWithDiffusersForEveryScheduleAndPrediction) {
  const base::Json cases = read_golden("schedules.json");
  ASSERT_EQ(cases.size(), 24);
  for (const base::Json& golden : cases) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const NoiseSchedule schedule(scheduler(golden.at("config")));
    const at::Tensor t = integers(golden.at("timesteps"));
    const at::Tensor x0 = images(golden.at("x0"), t.numel());
    const at::Tensor noise = images(golden.at("noise"), t.numel());

    EXPECT_LT(relative_error(schedule.betas().index_select(0, t), floats(golden.at("betas"))), 1e-6);
    const at::Tensor alphas_cumprod = schedule.alphas_cumprod().index_select(0, t);
    // Element by element: the last ones are as small as 1e-9 and still count.
    EXPECT_TRUE(at::allclose(alphas_cumprod, floats(golden.at("alphas_cumprod")), 1e-6, 1e-15));
    EXPECT_TRUE(at::allclose(schedule.snr(t), floats(golden.at("snr")), 1e-5, 1e-15));
    EXPECT_LT(relative_error(schedule.add_noise(x0, noise, t), floats(golden.at("noisy"))), 1e-6);
    EXPECT_LT(relative_error(schedule.target(x0, noise, t), floats(golden.at("target"))), 1e-6);
  }
}

TEST(Schedule, MinSnrWeightsAreThoseOfDiffusersTraining) {
  int compared = 0;
  for (const base::Json& golden : read_golden("schedules.json")) {
    if (golden.at("min_snr_5").is_null()) continue;  // no weight exists where epsilon is asked of pure noise
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const NoiseSchedule schedule(scheduler(golden.at("config")));
    const at::Tensor weight = diffusion::loss_weight(schedule, 5.0, integers(golden.at("timesteps")));
    EXPECT_TRUE(at::allclose(weight, floats(golden.at("min_snr_5")), 1e-5, 1e-12));
    ++compared;
  }
  EXPECT_EQ(compared, 22);
}

TEST(Schedule, ZeroTerminalSnrEndsWithPureNoise) {
  SchedulerConfig config;
  config.rescale_betas_zero_snr = true;
  const NoiseSchedule schedule(config);
  EXPECT_EQ(schedule.alpha_cumprod(999), 0.0F);
  EXPECT_FLOAT_EQ(schedule.alpha_cumprod(0), NoiseSchedule(SchedulerConfig{}).alpha_cumprod(0));
}

TEST(Schedule, ZeroTerminalSnrIsFiniteWhereFloat32LosesTheSignalBefore) {
  SchedulerConfig config;
  config.rescale_betas_zero_snr = true;
  config.prediction_type = diffusion::PredictionType::v_prediction;
  for (const auto& [timesteps, beta_end] : {std::pair{int64_t{10000}, 0.02}, {int64_t{1000}, 0.3}}) {
    SCOPED_TRACE(timesteps);
    config.num_train_timesteps = timesteps;
    config.beta_end = beta_end;
    const NoiseSchedule schedule(config);
    EXPECT_TRUE(schedule.betas().isfinite().all().item<bool>());
    EXPECT_TRUE((schedule.alphas_cumprod().diff() <= 0).all().item<bool>());
    EXPECT_EQ(schedule.alpha_cumprod(timesteps - 1), 0.0F);
    EXPECT_EQ(schedule.snr(at::tensor({timesteps - 1}, at::TensorOptions(at::kLong))).item<float>(), 0.0F);
  }
}

TEST(Schedule, KeepsTheMemoryFormatOfTheImages) {
  const NoiseSchedule schedule(SchedulerConfig{});
  const at::Tensor x0 = at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor noise = at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor t = at::tensor({10, 700}, at::TensorOptions(at::kLong));
  const at::Tensor noisy = schedule.add_noise(x0, noise, t);
  EXPECT_TRUE(noisy.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(noisy, schedule.add_noise(x0.contiguous(), noise.contiguous(), t)));
}

TEST(Schedule, RefusesTheWrongNumberOfBetas) {
  SchedulerConfig config;
  config.trained_betas = {0.1, 0.2};
  EXPECT_THROW(NoiseSchedule{config}, base::ConfigError);
}

}  // namespace
}  // namespace ddpm::test
