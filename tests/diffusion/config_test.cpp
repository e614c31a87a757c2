// The [diffusion] section: keys, defaults, refusals.
#include "diffusion/config.h"

#include <gmock/gmock.h>

#include "diffusion/validate.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::DiffusionConfig;

struct DiffusionSection {
  DiffusionConfig values;
  config::Schema schema;
  DiffusionSection() {
    config::Section section = schema.section("diffusion", "", config::Identity::fixed);
    describe(section, values);
  }
};

TEST(DiffusionConfig, HasEveryKeyAndDefaultOfDdpmScheduler) {
  // A file that diffusers wrote of a scheduler with default values only.
  for (const base::Json& golden : read_golden("trajectories.json")) {
    base::Json file = golden.at("file");
    if (file.at("_class_name") != "DDPMScheduler") continue;
    const DiffusionSection section;
    for (const auto& [key, value] : file.items()) {
      const bool known = section.schema.find("diffusion." + key) != nullptr;
      EXPECT_NE(known, key.front() == '_') << key;
    }
    file.erase("_diffusers_version");
    EXPECT_EQ(base::Json(diffusion::write_scheduler(section.values.scheduler)), file);
    return;
  }
  FAIL() << "no file of DDPMScheduler";
}

TEST(DiffusionConfig, ReadsToml) {
  const DiffusionSection section;
  config::apply(section.schema,
                config::parse_toml("[diffusion]\nprediction_type = 'v_prediction'\nsnr_gamma = 5\n"
                                   "num_train_timesteps = 2\ntrained_betas = [0.1, 0.2]\n",
                                   "test"),
                "test");
  EXPECT_EQ(section.values.scheduler.prediction_type, diffusion::PredictionType::v_prediction);
  EXPECT_EQ(section.values.snr_gamma, 5.0);
  EXPECT_EQ(section.values.scheduler.trained_betas, (std::vector<double>{0.1, 0.2}));
  EXPECT_NO_THROW(validate(section.values));
}

TEST(DiffusionConfig, NamesWhatANetworkFindsChangedAndNothingElse) {
  diffusion::SchedulerConfig trained;
  trained.prediction_type = diffusion::PredictionType::v_prediction;
  trained.trained_betas.assign(300, 0.125);
  diffusion::SchedulerConfig now = trained;
  now.clip_sample = false;  // of sampling alone, as the next two
  now.variance_type = diffusion::VarianceType::fixed_large;
  now.timestep_spacing = diffusion::TimestepSpacing::trailing;
  now.sigma_data = 1.0;  // of another formulation
  EXPECT_THAT(changed_network_keys(trained, now), testing::IsEmpty());
  now.prediction_type = diffusion::PredictionType::epsilon;
  now.beta_end = 0.01;
  now.beta_schedule = diffusion::BetaSchedule::scaled_linear;
  now.trained_betas.back() = 0.25;  // beyond what a line shows of it
  now.num_train_timesteps = 300;
  now.rescale_betas_zero_snr = true;
  const auto changed = changed_network_keys(trained, now);
  EXPECT_THAT(changed,
              testing::IsSupersetOf({"num_train_timesteps = 300 instead of 1000", "beta_end = 0.01 instead of 0.02",
                                     R"(beta_schedule = "scaled_linear" instead of "linear")",
                                     "rescale_betas_zero_snr = true instead of false",
                                     R"(prediction_type = "epsilon" instead of "v_prediction")"}));
  EXPECT_EQ(changed.size(), 6U);
  now.formulation = diffusion::Formulation::edm;
  EXPECT_THAT(changed_network_keys(trained, now), testing::ElementsAre(R"(formulation = "edm" instead of "ddpm")"));
  trained.formulation = diffusion::Formulation::edm;
  EXPECT_THAT(changed_network_keys(trained, now), testing::Contains("sigma_data = 1.0 instead of 0.5"));
}

TEST(DiffusionConfig, ListsTheKeysThatANetworkDependsOn) {
  EXPECT_THAT(diffusion::network_keys({}),
              testing::ElementsAre(R"(formulation = "ddpm")", "num_train_timesteps = 1000", "beta_start = 0.0001",
                                   "beta_end = 0.02", R"(beta_schedule = "linear")", "rescale_betas_zero_snr = false",
                                   R"(prediction_type = "epsilon")"));
  EXPECT_THAT(diffusion::network_keys({.formulation = diffusion::Formulation::regression}),
              testing::ElementsAre(R"(formulation = "regression")"));
}

}  // namespace
}  // namespace ddpm::test
