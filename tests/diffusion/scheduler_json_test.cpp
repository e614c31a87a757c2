// A model's scheduler_config.json: what is read, refused and written.
#include "diffusion/scheduler_json.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/named.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::SamplerType;
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
  const SchedulerConfig read = diffusion::read_scheduler(base::Json(written), SamplerType::ddim, "file");
  EXPECT_EQ(diffusion::write_scheduler(read), written);
  EXPECT_EQ(read.trained_betas, config.trained_betas);
}

TEST(SchedulerJson, RefusesWithOriginKeyAndValue) {
  const auto message = [](const char* text) -> std::string {
    try {
      diffusion::read_scheduler(base::parse_json(text), SamplerType::ddpm, "model/scheduler_config.json");
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
}

/// The error line of reading `text` for `sampler`, "" for none.
std::string problem(const char* text, SamplerType sampler) {
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
    for (const std::string& name_of_sampler : base::all_names<SamplerType>()) {
      const SamplerType sampler = base::find_named<SamplerType>(name_of_sampler).value();
      EXPECT_THAT(problem(json.c_str(), sampler),
                  testing::AllOf(testing::HasSubstr("model/scheduler_config.json"), testing::HasSubstr("_class_name"),
                                 testing::HasSubstr(fmt::format("\"{}\"", name))))
          << name_of_sampler;
    }
  }
  EXPECT_THAT(problem(R"({"_class_name": 3})", SamplerType::ddpm), testing::HasSubstr("_class_name = 3"));
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

TEST(SchedulerJson, NullSwitchesAreOff) {
  const base::Json json = base::parse_json(R"({"clip_sample": null, "set_alpha_to_one": null, "beta_end": null})");
  const diffusion::SchedulerConfig config = diffusion::read_scheduler(json, SamplerType::ddim, "file");
  EXPECT_FALSE(config.clips());
  EXPECT_FALSE(config.solver.set_alpha_to_one);
  EXPECT_EQ(config.beta_end, diffusion::SchedulerConfig{}.beta_end);
}

TEST(SchedulerJson, TheClassSaysWhetherAStepTakesAGenerator) {
  for (const char* name : {"PNDMScheduler", "FlaxPNDMScheduler", "DEISMultistepScheduler", "UniPCMultistepScheduler"}) {
    EXPECT_FALSE(diffusion::takes_generator(name)) << name;
  }
  for (const char* name : {"DDPMScheduler", "DDIMScheduler", "DPMSolverMultistepScheduler", "LCMScheduler"}) {
    EXPECT_TRUE(diffusion::takes_generator(name)) << name;
  }
}

TEST(SchedulerJson, TheClassSaysWhetherTheInputIsScaled) {
  for (const char* name :
       {"EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler", "HeunDiscreteScheduler", "KDPM2DiscreteScheduler",
        "KDPM2AncestralDiscreteScheduler", "LMSDiscreteScheduler", "DPMSolverSDEScheduler",
        "FlaxEulerDiscreteScheduler", "EDMEulerScheduler", "EDMDPMSolverMultistepScheduler"}) {
    EXPECT_TRUE(diffusion::scales_input(name)) << name;
  }
  for (const char* name : {"DDPMScheduler", "DDIMScheduler", "PNDMScheduler", "DPMSolverMultistepScheduler",
                           "LCMScheduler", "FlowMatchEulerDiscreteScheduler", "EulerDiscrete", ""}) {
    EXPECT_FALSE(diffusion::scales_input(name)) << name;
  }
}

TEST(SchedulerJson, RefusesKeysThatAFormulationHasNoMeaningFor) {
  using testing::HasSubstr;
  const char* karras = R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "use_karras_sigmas": true})";
  EXPECT_EQ(problem(karras, SamplerType::euler), "");
  EXPECT_EQ(problem(karras, SamplerType::ddpm), "");  // as training reads it
  for (const auto sampler : {SamplerType::heun, SamplerType::dpmsolver_pp, SamplerType::dpmsolver_pp_2s}) {
    EXPECT_THAT(problem(karras, sampler), HasSubstr("use_karras_sigmas")) << base::name_of(sampler);
  }
  const char* last = R"({"_class_name": "DPMSolverMultistepScheduler", "use_flow_sigmas": true,
                         "prediction_type": "flow_prediction", "final_sigmas_type": "sigma_min"})";
  for (const auto sampler : {SamplerType::dpmsolver_pp, SamplerType::dpmsolver_pp_2s}) {
    EXPECT_THAT(problem(last, sampler), HasSubstr("final_sigmas_type")) << base::name_of(sampler);
  }
  const char* noise = R"({"_class_name": "DPMSolverMultistepScheduler", "use_flow_sigmas": true})";
  EXPECT_THAT(problem(noise, SamplerType::euler), HasSubstr(R"(prediction_type = "epsilon" is not supported)"));
  const char* edm = R"({"_class_name": "EDMEulerScheduler", "final_sigmas_type": "sigma_min"})";
  EXPECT_EQ(problem(edm, SamplerType::euler), "");
  EXPECT_THAT(problem(edm, SamplerType::heun), HasSubstr("final_sigmas_type"));
  EXPECT_THAT(problem(R"({"sigma_min": 2.0, "sigma_max": 1.0})", SamplerType::euler), HasSubstr("sigma_min"));
  const char* dark = R"({"num_train_timesteps": 3, "trained_betas": [0.5, 1.0, 0.5]})";
  EXPECT_THAT(problem(dark, SamplerType::ddim), HasSubstr("trained_betas[1] = 1"));
  EXPECT_EQ(problem(R"({"num_train_timesteps": 2, "trained_betas": [0.5, 1.0]})", SamplerType::ddim), "");
}

TEST(SchedulerJson, EachSamplerReadsTheShiftThatItsClassHas) {
  constexpr const char* kSolver = R"({"_class_name": "DPMSolverMultistepScheduler", "use_flow_sigmas": true,
                                      "prediction_type": "flow_prediction", )";
  constexpr const char* kMatching = R"({"_class_name": "FlowMatchEulerDiscreteScheduler", )";
  for (const char* file : {kSolver, kMatching}) {
    const auto shift = [file](const char* keys, SamplerType sampler) {
      return diffusion::read_scheduler(base::parse_json(std::string(file) + keys + "}"), sampler, "file").shift;
    };
    for (const auto sampler : {SamplerType::dpmsolver_pp, SamplerType::dpmsolver_pp_2s}) {
      EXPECT_EQ(shift(R"("flow_shift": 3.0, "shift": 1.5)", sampler), 3.0);
      EXPECT_EQ(shift(R"("shift": 1.5)", sampler), 1.5);
    }
    for (const auto sampler : {SamplerType::euler, SamplerType::heun}) {
      EXPECT_EQ(shift(R"("flow_shift": 3.0, "shift": 1.5)", sampler), 1.5);
      EXPECT_EQ(shift(R"("flow_shift": 3.0)", sampler), 3.0);
    }
  }
}

TEST(SchedulerJson, NoBoundOfLambdaIsItsDefault) {
  const base::Json none = base::parse_json(R"({"lambda_min_clipped": "-Infinity"})");
  EXPECT_FALSE(
      diffusion::read_scheduler(none, SamplerType::dpmsolver_pp, "file").solver.lambda_min_clipped.has_value());
  EXPECT_THAT(problem(R"({"lambda_min_clipped": "Infinity"})", SamplerType::dpmsolver_pp),
              testing::HasSubstr("Infinity"));
  EXPECT_THAT(problem(R"({"beta_end": "NaN"})", SamplerType::ddpm), testing::HasSubstr("NaN"));
}

TEST(SchedulerJson, WholeNumbersAbove63BitsAreNotNegative) {
  const base::Json json = base::parse_json(R"({"sample_max_value": 18446744073709551615})");
  EXPECT_EQ(diffusion::read_scheduler(json, SamplerType::ddpm, "file").sample_max_value, 18446744073709551615.0);
}

}  // namespace
}  // namespace ddpm::test
