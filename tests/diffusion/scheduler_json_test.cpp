// A model's scheduler_config.json: what is read, refused and written.
#include <algorithm>

#include <gmock/gmock.h>

#include "base/error.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::SchedulerConfig;

TEST(SchedulerJson, WritesWhatDiffusersWrites) {
  // The first trajectory's file is DDPMScheduler's own, all defaults but where the case says otherwise.
  base::Json wanted = read_golden("trajectories.json").front().at("file");
  ASSERT_EQ(wanted.at("_class_name"), "DDPMScheduler");
  wanted.erase("_diffusers_version");
  const base::OrderedJson written = diffusion::write_scheduler(scheduler(wanted));
  EXPECT_EQ(base::Json(written), wanted);
  std::vector<std::string> keys;
  for (const auto& [key, value] : written.items()) keys.push_back(key);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
}

TEST(SchedulerJson, ReadsBackWhatItWrote) {
  SchedulerConfig config;
  config.num_train_timesteps = 3;
  config.trained_betas = {0.125, 0.25, 0.5};
  config.prediction_type = diffusion::PredictionType::v_prediction;
  config.clip_sample = false;
  config.timestep_spacing = diffusion::TimestepSpacing::trailing;
  const auto written = diffusion::write_scheduler(config);
  const SchedulerConfig read = diffusion::read_scheduler(base::Json(written), "ddim", "file");
  EXPECT_EQ(diffusion::write_scheduler(read), written);
  EXPECT_EQ(read.trained_betas, config.trained_betas);
}

TEST(SchedulerJson, RefusesWithOriginKeyAndValue) {
  const auto message = [](const char* text) -> std::string {
    try {
      diffusion::read_scheduler(base::parse_json(text), "ddpm", "model/scheduler_config.json");
    } catch (const base::OutputError& error) {
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_THAT(
      message(R"({"variance_type": "learned_range"})"),
      testing::AllOf(HasSubstr("variance_type"), HasSubstr("learned_range"), HasSubstr("model/scheduler_config.json")));
  EXPECT_THAT(message(R"({"num_train_timesteps": "many"})"), HasSubstr("num_train_timesteps"));
  EXPECT_THAT(message(R"({"beta_end": 2.0})"), HasSubstr("beta_end"));
  EXPECT_THAT(message(R"({"trained_betas": [0.1]})"), HasSubstr("trained_betas"));
  EXPECT_THAT(message(R"([])"), HasSubstr("object"));
  EXPECT_THROW(diffusion::read_scheduler(base::Json::object(), "plms", "file"), base::ConfigError);
}

TEST(SchedulerJson, WholeNumbersAbove63BitsAreNotNegative) {
  const base::Json json = base::parse_json(R"({"sample_max_value": 18446744073709551615})");
  EXPECT_EQ(diffusion::read_scheduler(json, "ddpm", "file").sample_max_value, 18446744073709551615.0);
}

}  // namespace
}  // namespace ddpm::test
