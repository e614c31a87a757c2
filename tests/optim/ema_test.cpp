// Moving averages against diffusers' EMAModel, and that no cut of a buffer changes a bit.
#include "optim/ema.h"

#include "golden.h"

namespace ddpm::test {
namespace {

using optim::EmaConfig;

EmaConfig ema_config(const base::Json& golden) {
  return {.inv_gamma = golden.at("inv_gamma"), .power = golden.at("power"), .max_decay = {golden.at("max_decay")}};
}

TEST(Ema, DecayIsThatOfDiffusers) {
  for (const base::Json& golden : read_golden("ema.json")) {
    const auto steps = golden.at("steps").get<std::vector<int64_t>>();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(ema_decay(ema_config(golden), 0, steps[i]), golden.at("decays").at(i).get<double>(), 1e-14)
          << "step " << steps[i];
    }
  }
}

TEST(Ema, AveragesAreThoseOfDiffusers) {
  for (const base::Json& golden : read_golden("ema.json")) {
    const EmaConfig config = ema_config(golden);
    std::vector<float> average = floats(golden.at("parameters").at(0));
    for (std::size_t i = 0; i < golden.at("parameters").size(); ++i) {
      const double decay = ema_decay(config, 0, static_cast<int64_t>(i) + 1);
      optim::ema_update(decay, average, floats(golden.at("parameters").at(i)));
      expect_close(average, floats(golden.at("averages").at(i)), 1e-6, 1e-7);
    }
  }
}

TEST(Ema, EachAverageHasItsOwnLimit) {
  const EmaConfig config{.max_decay = {0.5, 0.9999}};
  EXPECT_EQ(config.count(), 2);
  EXPECT_EQ(ema_decay(config, 0, 1000), 0.5);
  EXPECT_GT(ema_decay(config, 1, 1000), 0.99);
}

TEST(Ema, FirstUpdateCopiesTheWeights) {
  std::vector<float> average = random_floats(20, 1);
  const std::vector<float> parameter(20, 0.25F);
  optim::ema_update(optim::ema_decay({}, 0, 1), average, parameter);
  expect_close(average, parameter, 0.0, 2e-7);
}

TEST(Ema, AnyCutGivesTheSameBits) {
  constexpr std::size_t kCount = 131;
  const std::vector<float> start = random_floats(kCount, 1);
  const std::vector<float> parameter = random_floats(kCount, 2);
  std::vector<float> whole = start;
  optim::ema_update(0.9, whole, parameter);
  for (std::size_t cut = 0; cut <= kCount; ++cut) {
    std::vector<float> parts = start;
    optim::ema_update(0.9, std::span(parts).first(cut), std::span(parameter).first(cut));
    optim::ema_update(0.9, std::span(parts).subspan(cut), std::span(parameter).subspan(cut));
    ASSERT_EQ(parts, whole) << "cut at " << cut;
  }
}

TEST(EmaConfig, OffKeepsNoneAndNoLimitIsRefused) {
  EmaConfig config;
  config.enabled = false;
  EXPECT_EQ(config.count(), 0);
  config.max_decay.clear();
  EXPECT_THAT(message_of<base::ConfigError>([&] { validate(config); }), testing::HasSubstr("ema.max_decay"));
}

}  // namespace
}  // namespace ddpm::test
