#include "plan/plan_request.h"

#include <gtest/gtest.h>

#include "train/config.h"

namespace ddpm::plan {
namespace {

bool saves_while_training(const train::Config& config) { return arrangement_of(config, 1, 1).saves_while_training; }

TEST(PlanRequest, ACheckpointBeforeTheLastStepIsWrittenWhileTraining) {
  train::Config config;
  config.checkpoint.async = true;
  config.checkpoint.every_steps = 100;
  EXPECT_TRUE(saves_while_training(config)) << "epochs are long";
  config.train.steps = 101;
  EXPECT_TRUE(saves_while_training(config));
  config.train.steps = 100;
  EXPECT_FALSE(saves_while_training(config));
}

TEST(PlanRequest, SoIsThatOfTheBestValidation) {
  train::Config config;
  config.checkpoint.async = true;
  config.checkpoint.every_steps = 100;
  config.train.steps = 100;
  config.validation.every_steps = 50;
  EXPECT_TRUE(saves_while_training(config));
  config.validation.every_steps = 100;
  EXPECT_FALSE(saves_while_training(config));
  config.validation.every_steps = 50;
  config.checkpoint.async = false;
  EXPECT_FALSE(saves_while_training(config));
}

}  // namespace
}  // namespace ddpm::plan
