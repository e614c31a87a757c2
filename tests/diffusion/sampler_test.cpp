// Whole trajectories against diffusers' DDPMScheduler and DDIMScheduler, with a model that both can compute.
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/quantile.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/named.h"
#include "diffusion/sampler_formulas.h"
#include "diffusion/samplers.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::SampleNoise;
using diffusion::SamplerOptions;
using diffusion::SamplerType;
using diffusion::SchedulerConfig;
using testing::HasSubstr;

/// The model of make_golden.py.
diffusion::Denoiser make_model(int64_t num_train_timesteps) {
  return [total = static_cast<double>(num_train_timesteps)](const at::Tensor& x, const at::Tensor& t) {
    const double tau = t[0].item<double>() / total;
    return x * (0.4 + 0.5 * tau) + at::tanh(x) * (0.3 - 0.2 * tau);
  };
}

at::Tensor run(const SchedulerConfig& config, const SamplerOptions& options, const SampleNoise& fresh = {},
               int64_t count = 2) {
  const at::Tensor noise = diffusion::initial_noise(fresh.seed, fresh.first_image, count, kGoldenShape);
  return diffusion::sample(*diffusion::make_sampler(config, options), fresh, noise,
                           make_model(config.num_train_timesteps));
}

SamplerOptions options_of(const base::Json& golden) {
  return {.scheduler = sampler_of(golden), .steps = golden.at("steps"), .eta = golden.at("eta")};
}

TEST(Sampler, TrajectoriesAgreeWithDiffusers) {
  const base::Json cases = read_golden("trajectories.json");
  ASSERT_GT(cases.size(), 100);
  for (const base::Json& golden : cases) {
    SCOPED_TRACE(golden.at("file").dump() + " " + golden.at("sampler").dump() + " " + golden.at("steps").dump() +
                 " eta " + golden.at("eta").dump());
    const SamplerOptions options = options_of(golden);
    const SchedulerConfig config = diffusion::read_scheduler(golden.at("file"), options.scheduler, "golden");
    EXPECT_LT(relative_error(run(config, options, {kGoldenSeed, kGoldenFirstImage}), floats(golden.at("sample"))),
              1e-4);
  }
}

TEST(Sampler, VisitsTheTimestepsOfDiffusers) {
  for (const base::Json& golden : read_golden("trajectories.json")) {
    SCOPED_TRACE(golden.at("file").dump());
    const SamplerOptions options = options_of(golden);
    const auto config = diffusion::read_scheduler(golden.at("file"), options.scheduler, "golden");
    const auto wanted = golden.at("visited").get<std::vector<double>>();
    const auto sampler = diffusion::make_sampler(config, options);
    const std::vector<double>& visited = sampler->timesteps();
    ASSERT_EQ(static_cast<int64_t>(visited.size()), options.steps);
    const std::size_t stride = visited.size() <= 30 ? 1 : visited.size() / 10;
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(visited.at(i * stride), wanted[i]);
  }
}

TEST(Sampler, AnImageIsTheSameInAnyBatch) {
  for (const auto& [type, eta] : {std::pair{SamplerType::ddpm, 0.0}, {SamplerType::ddim, 1.0}}) {
    const SamplerOptions options{.scheduler = type, .steps = 10, .eta = eta};
    const at::Tensor whole = run(SchedulerConfig{}, options, {9, 0}, 4);
    for (uint64_t image = 0; image < 4; ++image) {
      EXPECT_TRUE(at::equal(run(SchedulerConfig{}, options, {9, image}, 1)[0], whole[static_cast<int64_t>(image)]));
    }
  }
}

TEST(Sampler, DdimWithoutEtaDependsOnTheInitialNoiseAlone) {
  const at::Tensor noise = diffusion::initial_noise(1, 0, 2, kGoldenShape);
  const auto sample = [&](uint64_t seed, double eta) {
    const auto sampler =
        diffusion::make_sampler(SchedulerConfig{}, {.scheduler = SamplerType::ddim, .steps = 5, .eta = eta});
    return diffusion::sample(*sampler, {seed, 0}, noise, make_model(1000));
  };
  EXPECT_TRUE(at::equal(sample(1, 0.0), sample(2, 0.0)));
  EXPECT_FALSE(at::equal(sample(1, 0.5), sample(2, 0.5)));
}

TEST(Sampler, SpacingOptionReplacesTheSchedulers) {
  SamplerOptions options{.scheduler = SamplerType::ddim, .steps = 7};
  SchedulerConfig trailing;
  trailing.timestep_spacing = diffusion::TimestepSpacing::trailing;
  const at::Tensor wanted = run(trailing, options);
  EXPECT_FALSE(at::equal(run(SchedulerConfig{}, options), wanted));
  options.timestep_spacing = diffusion::TimestepSpacing::trailing;
  EXPECT_TRUE(at::equal(run(SchedulerConfig{}, options), wanted));
}

// diffusers' fixed_large_log takes the root of a negative logarithm; its meaning is the variance of fixed_large.
TEST(Sampler, FixedLargeLogHasTheVarianceOfFixedLarge) {
  SchedulerConfig config;
  config.variance_type = diffusion::VarianceType::fixed_large;
  const at::Tensor large = run(config, {.steps = 20});
  config.variance_type = diffusion::VarianceType::fixed_large_log;
  EXPECT_TRUE(at::equal(run(config, {.steps = 20}), large));
}

TEST(Sampler, FullNoiseDdimFromPureNoiseStaysFinite) {
  SchedulerConfig config;
  config.beta_schedule = diffusion::BetaSchedule::squaredcos_cap_v2;
  config.rescale_betas_zero_snr = true;
  config.prediction_type = diffusion::PredictionType::sample;
  config.timestep_spacing = diffusion::TimestepSpacing::trailing;
  EXPECT_TRUE(at::isfinite(run(config, {.scheduler = SamplerType::ddim, .steps = 25, .eta = 1.0})).all().item<bool>());
}

TEST(Sampler, GivesTheModelInt64TimestepsAndNoGradientMode) {
  const at::Tensor noise = diffusion::initial_noise(0, 0, 3, kGoldenShape);
  std::vector<std::size_t> done;
  diffusion::sample(
      *diffusion::make_sampler(SchedulerConfig{}, {.steps = 4}), {}, noise,
      [](const at::Tensor& x, const at::Tensor& t) {
        EXPECT_FALSE(at::GradMode::is_enabled());
        EXPECT_EQ(t.scalar_type(), at::kLong);
        EXPECT_EQ(t.sizes(), at::IntArrayRef({3}));
        return x;
      },
      [&](std::size_t step, std::size_t total) {
        EXPECT_EQ(total, 4);
        done.push_back(step);
      });
  EXPECT_EQ(done, (std::vector<std::size_t>{1, 2, 3, 4}));
}

TEST(Sampler, FormulasOfDdpmAgreeWithScalings) {
  const at::Tensor x = diffusion::initial_noise(1, 0, 2, kGoldenShape);
  const at::Tensor answer = diffusion::initial_noise(2, 0, 2, kGoldenShape);
  for (const auto prediction : {diffusion::PredictionType::epsilon, diffusion::PredictionType::sample,
                                diffusion::PredictionType::v_prediction}) {
    for (const float alpha_cumprod : {0.9999F, 0.5F, 0.01F}) {
      const diffusion::NoiseLevel level{alpha_cumprod};
      SchedulerConfig config;
      config.prediction_type = prediction;
      const auto s = diffusion::scalings(config, {.alpha = level.signal(), .sigma = level.noise()});
      EXPECT_NEAR(s.in, 1.0, 1e-6);
      const at::Tensor image = diffusion::predicted_image(prediction, level, answer, x);
      EXPECT_LT(relative_error(x * s.skip + answer * s.out, image), 1e-5) << base::name_of(prediction);
    }
  }
}

SchedulerConfig thresholds_at(double ratio) {
  SchedulerConfig config;
  config.thresholding = true;
  config.dynamic_thresholding_ratio = ratio;
  config.sample_max_value = 1e6;
  return config;
}

TEST(Sampler, ThresholdsAtTheQuantileOfATen) {
  at::manual_seed(3);
  for (const int64_t images : {1, 3, 17}) {
    for (const int64_t values : {1, 2, 7, 100, 4097}) {
      const at::Tensor x = at::randn({images, 1, 1, values}) * 5.0;
      for (const double ratio : {0.0, 0.5, 0.87, 0.995, 1.0}) {
        const at::Tensor bound = at::quantile(x.abs().view({images, -1}), ratio, 1).clamp_min(1.0).view({-1, 1, 1, 1});
        EXPECT_TRUE(at::equal(diffusion::limit_image(thresholds_at(ratio), x), at::clamp(x, -bound, bound) / bound))
            << images << " images of " << values << ", " << ratio;
      }
    }
  }
}

TEST(Sampler, ThresholdsLeaveANaNInItsImage) {
  at::Tensor x = at::ones({2, 1, 4, 4});
  x[1][0][2][3] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor limited = diffusion::limit_image(thresholds_at(0.5), x);
  EXPECT_TRUE(at::equal(limited[0], x[0]));
  EXPECT_TRUE(limited[1].isnan().all().item<bool>());
}

/// What the network answers where images have no values was never trained, and may be anything.
TEST(Sampler, ThresholdsAtTheQuantileOfValidValues) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({3, 2, 6, 7}) * 5.0;
  at::Tensor valid = at::rand({3, 1, 6, 7}) > 0.4;
  valid[1].fill_(true);
  valid[2].fill_(false);
  const at::Tensor everywhere = valid.expand_as(x);
  const SchedulerConfig config = thresholds_at(0.9);
  for (const float elsewhere : {0.0F, 1e4F, std::numeric_limits<float>::quiet_NaN()}) {
    const at::Tensor shown = at::where(everywhere, x, at::full({}, elsewhere));
    const at::Tensor limited = diffusion::limit_image(config, shown, valid);
    for (const int64_t i : {0, 1}) {
      const at::Tensor values = x[i].masked_select(everywhere[i]);
      const at::Tensor bound = at::quantile(values.abs(), 0.9).clamp_min(1.0);
      EXPECT_TRUE(at::equal(limited[i].masked_select(everywhere[i]), at::clamp(values, -bound, bound) / bound))
          << "image " << i << ", elsewhere " << elsewhere;
    }
  }
  const at::Tensor all = at::ones_like(valid);
  EXPECT_TRUE(at::equal(diffusion::limit_image(config, x, all), diffusion::limit_image(config, x)));
}

TEST(Sampler, ThresholdsImagesOfMoreValuesThanATensQuantile) {
  const at::Tensor x = at::ones({1, 1, 4096, 4098});  // 2^24 are 4096 times 4096
  x.select(2, 7).fill_(3.0);
  EXPECT_THROW((void)at::quantile(x.flatten(), 0.9), c10::Error);
  EXPECT_TRUE(at::equal(diffusion::limit_image(thresholds_at(0.9999), x), x / 3.0));
}

TEST(Sampler, TakesNoMoreStepsByItselfThanThereAreTimesteps) {
  SchedulerConfig few;
  few.num_train_timesteps = 20;
  EXPECT_EQ(diffusion::default_steps(SamplerType::ddim, few), 20);
  EXPECT_EQ(diffusion::default_steps(SamplerType::ddim, SchedulerConfig{}), 50);
  for (const auto type : {SamplerType::ddpm, SamplerType::ddim, SamplerType::dpmsolver_pp, SamplerType::dpmsolver_pp_2s,
                          SamplerType::euler, SamplerType::heun}) {
    for (const auto spacing : {diffusion::TimestepSpacing::leading, diffusion::TimestepSpacing::linspace,
                               diffusion::TimestepSpacing::trailing}) {
      few.timestep_spacing = spacing;
      EXPECT_NO_THROW(make_sampler(few, {.scheduler = type, .steps = diffusion::default_steps(type, few)}))
          << base::name_of(type) << " " << base::name_of(spacing);
    }
  }
}

TEST(Sampler, RefusesFlowsOfOneTimestepWhereItHasNoLevelToBeginAt) {
  SchedulerConfig config;
  config.formulation = diffusion::Formulation::flow;
  config.num_train_timesteps = 1;
  for (const auto type : {SamplerType::dpmsolver_pp, SamplerType::dpmsolver_pp_2s}) {
    try {
      (void)make_sampler(config, {.scheduler = type, .steps = 1});
      FAIL() << base::name_of(type) << " is made";
    } catch (const base::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("num_train_timesteps = 1"), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(make_sampler(config, {.scheduler = SamplerType::euler, .steps = 1}));
  config.num_train_timesteps = 2;
  EXPECT_NO_THROW(make_sampler(config, {.scheduler = SamplerType::dpmsolver_pp, .steps = 1}));
}

TEST(Sampler, RefusesWhatItCannotDo) {
  const SchedulerConfig config;
  EXPECT_THROW(make_sampler(config, {.steps = 0}), base::ConfigError);
  EXPECT_THROW(make_sampler(config, {.steps = 1001}), base::ConfigError);
  EXPECT_THROW(make_sampler(config, {.scheduler = SamplerType::ddim, .steps = 5, .eta = -1.0}), base::ConfigError);
  SchedulerConfig beyond;
  beyond.steps_offset = 1;  // the highest of 1000 timesteps would be 1000
  EXPECT_THROW(make_sampler(beyond, {.steps = 1000}), base::ConfigError);
  SchedulerConfig no_signal;
  no_signal.rescale_betas_zero_snr = true;
  EXPECT_THROW(make_sampler(no_signal, {.steps = 1000}), base::ConfigError);
  EXPECT_NO_THROW(make_sampler(no_signal, {.steps = 50}));
}

/// What helps is something that the sampler has.
TEST(Sampler, SaysWhatBeginsWhereThereIsSignal) {
  SchedulerConfig no_signal;
  no_signal.rescale_betas_zero_snr = true;
  no_signal.timestep_spacing = diffusion::TimestepSpacing::trailing;
  const auto refusal = [&](SamplerType type) {
    try {
      make_sampler(no_signal, {.scheduler = type, .steps = 10});
    } catch (const base::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(refusal(SamplerType::euler), HasSubstr("leading timestep_spacing with fewer steps begins below it"));
  EXPECT_THAT(refusal(SamplerType::dpmsolver_pp_2s),
              HasSubstr("dpmsolver++ with --timestep-spacing leading begins below it"));
  no_signal.timestep_spacing = diffusion::TimestepSpacing::leading;
  EXPECT_EQ(refusal(SamplerType::dpmsolver_pp), "none");
}

}  // namespace
}  // namespace ddpm::test
