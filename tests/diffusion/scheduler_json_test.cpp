// A model's scheduler_config.json: what is read, refused and written.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "diffusion/samplers.h"
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

/// The error line of reading `text` for `sampler`, "" for none.
std::string problem(const char* text, const char* sampler) {
  try {
    diffusion::read_scheduler(base::parse_json(text), sampler, "model/scheduler_config.json");
  } catch (const base::OutputError& error) {
    return error.what();
  }
  return "";
}

TEST(SchedulerJson, RefusesClassesThatMayDescribeAnotherProcess) {
  for (const char* name :
       {"ScoreSdeVeScheduler", "ScoreSdeVpScheduler", "KarrasVeScheduler", "CMStochasticIterativeScheduler",
        "UnCLIPScheduler", "CosineDPMSolverMultistepScheduler", "DDPMWuerstchenScheduler", "SCMScheduler",
        "ConsistencyDecoderScheduler", "DDIMInverseScheduler", "IPNDMScheduler", "NoSuchScheduler", "DDPM", ""}) {
    const std::string json = fmt::format(R"({{"_class_name": "{}"}})", name);
    for (const std::string& sampler : diffusion::sampler_names()) {
      EXPECT_THAT(problem(json.c_str(), sampler.c_str()),
                  testing::AllOf(testing::HasSubstr("model/scheduler_config.json"), testing::HasSubstr("_class_name"),
                                 testing::HasSubstr(fmt::format("\"{}\"", name))))
          << sampler;
    }
  }
  EXPECT_THAT(problem(R"({"_class_name": 3})", "ddpm"), testing::HasSubstr("_class_name = 3"));
}

TEST(SchedulerJson, TheClassSaysTheFormulation) {
  const auto formulation = [](const char* text) { return diffusion::formulation_of(base::parse_json(text), "file"); };
  using diffusion::Formulation;
  EXPECT_EQ(formulation("{}"), Formulation::ddpm);
  EXPECT_EQ(formulation(R"({"_class_name": null})"), Formulation::ddpm);
  for (const char* name : {"DDPM", "DDIM", "PNDM", "FlaxPNDM", "DPMSolverMultistep", "DPMSolverSinglestep",
                           "DPMSolverSDE", "DEISMultistep", "UniPCMultistep", "EulerDiscrete", "EulerAncestralDiscrete",
                           "HeunDiscrete", "KDPM2Discrete", "KDPM2AncestralDiscrete", "LMSDiscrete", "LCM", "TCD"}) {
    EXPECT_EQ(formulation(fmt::format(R"({{"_class_name": "{}Scheduler"}})", name).c_str()), Formulation::ddpm) << name;
  }
  EXPECT_EQ(formulation(R"({"_class_name": "EDMEulerScheduler"})"), Formulation::edm);
  EXPECT_EQ(formulation(R"({"_class_name": "EDMDPMSolverMultistepScheduler"})"), Formulation::edm);
  EXPECT_EQ(formulation(R"({"_class_name": "FlowMatchHeunDiscreteScheduler"})"), Formulation::flow);
  EXPECT_EQ(formulation(R"({"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true})"), Formulation::flow);
  EXPECT_EQ(formulation(R"({"_class_name": "Regression"})"), Formulation::regression);
}

TEST(SchedulerJson, RefusesKeysThatAFormulationHasNoMeaningFor) {
  using testing::HasSubstr;
  const char* karras = R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "use_karras_sigmas": true})";
  EXPECT_EQ(problem(karras, "euler"), "");
  EXPECT_EQ(problem(karras, "ddpm"), "");  // as training reads it
  for (const char* sampler : {"heun", "dpmsolver++", "dpmsolver++2s"}) {
    EXPECT_THAT(problem(karras, sampler), HasSubstr("use_karras_sigmas")) << sampler;
  }
  const char* last = R"({"_class_name": "DPMSolverMultistepScheduler", "use_flow_sigmas": true,
                         "final_sigmas_type": "sigma_min"})";
  for (const char* sampler : {"dpmsolver++", "dpmsolver++2s"}) {
    EXPECT_THAT(problem(last, sampler), HasSubstr("final_sigmas_type")) << sampler;
  }
  EXPECT_THAT(problem(R"({"sigma_min": 2.0, "sigma_max": 1.0})", "euler"), HasSubstr("sigma_min"));
}

TEST(SchedulerJson, NoBoundOfLambdaIsItsDefault) {
  const base::Json none = base::parse_json(R"({"lambda_min_clipped": "-Infinity"})");
  EXPECT_FALSE(diffusion::read_scheduler(none, "dpmsolver++", "file").solver.lambda_min_clipped.has_value());
  EXPECT_THAT(problem(R"({"lambda_min_clipped": "Infinity"})", "dpmsolver++"), testing::HasSubstr("Infinity"));
  EXPECT_THAT(problem(R"({"beta_end": "NaN"})", "ddpm"), testing::HasSubstr("NaN"));
}

TEST(SchedulerJson, WholeNumbersAbove63BitsAreNotNegative) {
  const base::Json json = base::parse_json(R"({"sample_max_value": 18446744073709551615})");
  EXPECT_EQ(diffusion::read_scheduler(json, "ddpm", "file").sample_max_value, 18446744073709551615.0);
}

}  // namespace
}  // namespace ddpm::test
