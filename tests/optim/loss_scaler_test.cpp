// The loss scale's transitions against torch.amp's, its limits, and that a checkpoint keeps all of it.
#include "optim/loss_scaler.h"

#include "golden.h"

namespace ddpm::test {
namespace {

using optim::LossScaler;
using optim::MixedPrecision;
using optim::PrecisionConfig;

PrecisionConfig half(int64_t window) { return {.mixed_precision = MixedPrecision::fp16, .loss_scale_window = window}; }

TEST(LossScaler, FollowsTorchAmp) {
  for (const base::Json& golden : read_golden("loss_scale.json")) {
    PrecisionConfig config = half(golden.at("window"));
    config.initial_loss_scale = golden.at("initial");
    LossScaler scaler(config);
    for (std::size_t i = 0; i < golden.at("overflows").size(); ++i) {
      scaler.update(golden.at("overflows").at(i));
      EXPECT_EQ(scaler.scale(), golden.at("states").at(i).at(0).get<double>()) << "step " << i;
      EXPECT_EQ(scaler.state().growth_tracker, golden.at("states").at(i).at(1).get<int64_t>()) << "step " << i;
    }
  }
}

TEST(LossScaler, StaysOneWithoutHalfPrecision) {
  LossScaler scaler(PrecisionConfig{.mixed_precision = MixedPrecision::bf16, .loss_scale_window = 1});
  EXPECT_FALSE(scaler.dynamic());
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1.0);
  EXPECT_THROW(scaler.update(true), base::NumericsError);
}

TEST(LossScaler, SkipsAsManyStepsInARowAsAllowedWithoutHalfPrecision) {
  LossScaler scaler({.mixed_precision = MixedPrecision::bf16}, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NO_THROW(scaler.update(true));
    EXPECT_NO_THROW(scaler.update(true));
    EXPECT_NO_THROW(scaler.update(false));
  }
  EXPECT_EQ(scaler.scale(), 1.0);
  scaler.update(true);
  scaler.update(true);
  EXPECT_EQ(scaler.state().consecutive_skips, 2);
  EXPECT_THROW(scaler.update(true), base::NumericsError);
}

TEST(LossScaler, EndsTheRunAtTheLeastScale) {
  PrecisionConfig config = half(10);
  config.initial_loss_scale = 4.0;
  LossScaler scaler(config);
  scaler.update(true);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1.0);
  const std::string message = message_of<base::NumericsError>([&] { scaler.update(true); });
  EXPECT_THAT(message, testing::AllOf(testing::HasSubstr("loss scale 1"), testing::HasSubstr("min_loss_scale = 1"),
                                      testing::HasSubstr("3 steps")));
  EXPECT_EQ(base::NumericsError("x").code(), base::ExitCode::numerics);
}

TEST(LossScaler, EndsTheRunAfterTooManySkipsInARow) {
  PrecisionConfig config = half(10);
  config.max_consecutive_skips = 2;
  LossScaler scaler(config);
  scaler.update(true);
  scaler.update(true);
  scaler.update(false);  // begins the count anew
  scaler.update(true);
  scaler.update(true);
  EXPECT_THAT(message_of<base::NumericsError>([&] { scaler.update(true); }),
              testing::HasSubstr("max_consecutive_skips = 2"));
}

TEST(LossScaler, NeverGrowsBeyondFloat32) {
  PrecisionConfig config = half(1);
  config.initial_loss_scale = 0x1p126;
  LossScaler scaler(config);
  for (int i = 0; i < 3; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 0x1p127);
}

TEST(LossScaler, GoesOnFromItsState) {
  const PrecisionConfig config = half(3);
  LossScaler first(config);
  for (const bool overflow : {true, false, false}) first.update(overflow);
  LossScaler second(config);
  second.set_state(first.state());
  for (const bool overflow : {false, true, true}) {
    first.update(overflow);
    second.update(overflow);
    EXPECT_EQ(first.state(), second.state());
  }
}

TEST(PrecisionConfig, RefusesAStartBelowTheLeastScale) {
  PrecisionConfig config;
  config.initial_loss_scale = 0.5;
  EXPECT_THAT(message_of<base::ConfigError>([&] { validate(config); }), testing::HasSubstr("initial_loss_scale = 0.5"));
}

}  // namespace
}  // namespace ddpm::test
