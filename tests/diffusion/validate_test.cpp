// Refusals that the ranges of single keys cannot say.
#include "diffusion/validate.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::test {
namespace {

using diffusion::DiffusionConfig;

TEST(ValidateDiffusion, RefusesEpsilonAtZeroSignal) {
  DiffusionConfig config;
  config.scheduler.rescale_betas_zero_snr = true;
  EXPECT_THROW(validate(config), base::ConfigError);
  config.scheduler.prediction_type = diffusion::PredictionType::v_prediction;
  EXPECT_NO_THROW(validate(config));
}

TEST(ValidateDiffusion, RefusesEpsilonWhereTheLastBetaLeavesNoSignal) {
  DiffusionConfig config;
  config.scheduler.num_train_timesteps = 2;
  config.scheduler.trained_betas = {0.1, 1.0};
  EXPECT_THROW(validate(config), base::ConfigError);
  config.scheduler.prediction_type = diffusion::PredictionType::sample;
  EXPECT_NO_THROW(validate(config));
}

TEST(ValidateDiffusion, KnowsWhereFloat32LosesTheSignalThatEpsilonNeeds) {
  diffusion::SchedulerConfig config;
  EXPECT_FALSE(asks_noise_alone_for_noise(config));
  config.beta_end = 0.3;
  EXPECT_TRUE(asks_noise_alone_for_noise(config));
  config.prediction_type = diffusion::PredictionType::v_prediction;
  EXPECT_FALSE(asks_noise_alone_for_noise(config));
  config = {.formulation = diffusion::Formulation::flow, .num_train_timesteps = 12000};
  EXPECT_FALSE(asks_noise_alone_for_noise(config));
  config.formulation = diffusion::Formulation::ddpm;
  EXPECT_TRUE(asks_noise_alone_for_noise(config));
}

TEST(ValidateDiffusion, RefusesAFirstBetaThatFloat32LosesBesideOne) {
  DiffusionConfig config;
  config.scheduler.beta_start = 1e-8;
  try {
    validate(config);
    FAIL();
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("diffusion.beta_start: the first β is 1e-08, which float32 loses"));
  }
  config.scheduler.beta_start = 1e-6;
  EXPECT_NO_THROW(validate(config));
  config.scheduler.num_train_timesteps = 2;
  config.scheduler.trained_betas = {1e-9, 0.5};
  EXPECT_THROW(validate(config), base::ConfigError);
}

TEST(ValidateDiffusion, RefusesTheWrongNumberOfBetasWithBothNumbers) {
  DiffusionConfig config;
  config.scheduler.trained_betas = {0.1, 0.2, 0.3};
  try {
    validate(config);
    FAIL();
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("diffusion.trained_betas has 3"),
                                             testing::HasSubstr("diffusion.num_train_timesteps = 1000")));
  }
}

}  // namespace
}  // namespace ddpm::test
