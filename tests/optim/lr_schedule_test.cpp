// Every learning rate of runs under each schedule, against diffusers' get_scheduler and PyTorch's OneCycleLR.
#include "optim/lr_schedule.h"

#include "config/resolve.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using optim::LrScheduleConfig;
using optim::LrShape;

constexpr double kBaseRate = 3e-4;

/// Assigns the golden's keys by way of the section, as a configuration file would.
LrScheduleConfig lr_config(const base::Json& keys) {
  LrScheduleConfig config;
  config::Schema schema;
  config::Section section = schema.section("lr_schedule", "", config::Identity::fixed);
  describe(section, config);
  std::string toml = "[lr_schedule]\n";
  for (const auto& [key, value] : keys.items()) toml += key + " = " + value.dump() + "\n";
  config::apply(schema, config::parse_toml(toml, "golden"), "golden");
  return config;
}

TEST(LrSchedule, EveryRateIsThatOfDiffusersAndTorch) {
  const base::Json cases = read_golden("learning_rates.json");
  ASSERT_EQ(cases.size(), 39);
  for (const base::Json& golden : cases) {
    const LrScheduleConfig config = lr_config(golden.at("keys"));
    const auto total = golden.at("total").get<int64_t>();
    const auto rates = golden.at("rates").get<std::vector<double>>();
    for (std::size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(optim::learning_rate(config, kBaseRate, static_cast<int64_t>(i), total), rates[i], 1e-12 * kBaseRate)
          << golden.at("keys") << " of " << total << " updates, update " << i;
    }
  }
}

TEST(LrSchedule, NoRunLengthGivesARateThatIsNoNumber) {
  for (const std::string& called : base::all_names<LrShape>()) {
    const LrShape name = *base::find_named<LrShape>(called);
    for (const bool three_phase : {false, true}) {
      for (int64_t total = 1; total < 12; ++total) {
        LrScheduleConfig config{.name = name, .warmup_steps = 5, .three_phase = three_phase};
        for (int64_t update = 0; update <= total; ++update) {
          const double rate = optim::learning_rate(config, kBaseRate, update, total);
          EXPECT_TRUE(rate >= 0.0 && rate <= kBaseRate * (1.0 + 1e-12)) << called << " " << update << " of " << total;
        }
      }
    }
  }
}

TEST(LrSchedule, AShareOfTheRunWarmsUpAsThatManyUpdates) {
  for (const LrShape name : {LrShape::constant_with_warmup, LrShape::linear, LrShape::cosine,
                             LrShape::cosine_with_restarts, LrShape::polynomial}) {
    const LrScheduleConfig share{.name = name, .warmup_steps = std::nullopt, .warmup_fraction = 0.25};
    const LrScheduleConfig updates{.name = name, .warmup_steps = 5};
    EXPECT_EQ(optim::warmup_updates(share, 20), 5);
    for (int64_t update = 0; update <= 20; ++update) {
      EXPECT_EQ(optim::learning_rate(share, kBaseRate, update, 20),
                optim::learning_rate(updates, kBaseRate, update, 20));
    }
  }
  const LrScheduleConfig half{.warmup_steps = std::nullopt, .warmup_fraction = 0.5};
  EXPECT_EQ(optim::warmup_updates(half, 3), 2);  // 1.5, rounded up
  EXPECT_EQ(optim::warmup_updates(half, 1), 1);
}

TEST(LrSchedule, TheWholeRunMayWarmUpAndNoneOfIt) {
  for (const double fraction : {0.0, 1.0}) {
    const LrScheduleConfig config{
        .name = LrShape::polynomial, .warmup_steps = std::nullopt, .warmup_fraction = fraction};
    for (int64_t update = 0; update <= 8; ++update) {
      EXPECT_TRUE(std::isfinite(optim::learning_rate(config, kBaseRate, update, 8))) << fraction << " " << update;
    }
  }
}

TEST(LrSchedule, RefusesTwoWarmUpsAndNone) {
  const LrScheduleConfig both{.warmup_steps = 5, .warmup_fraction = 0.1};
  EXPECT_THAT(message_of<base::ConfigError>([&] { validate(both, 1e-4); }), testing::HasSubstr("both are set"));
  const LrScheduleConfig none{.warmup_steps = std::nullopt};
  EXPECT_THAT(message_of<base::ConfigError>([&] { validate(none, 1e-4); }), testing::HasSubstr("neither is set"));
}

TEST(LrSchedule, RefusesAnEndAboveTheStart) {
  LrScheduleConfig config{.name = LrShape::polynomial, .lr_end = 1e-3};
  EXPECT_THAT(message_of<base::ConfigError>([&] { validate(config, 1e-4); }), testing::HasSubstr("lr_end"));
  EXPECT_NO_THROW(validate(config, 1e-2));
  config.name = LrShape::cosine;
  EXPECT_NO_THROW(validate(config, 1e-4));
}

}  // namespace
}  // namespace ddpm::test
