#include "diffusion/validate.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/named.h"
#include "diffusion/betas.h"

namespace ddpm::diffusion {
namespace {

/// Samplers divide by the noise of the first timestep, which is none where float32 loses its β beside 1.
void expect_noise(const SchedulerConfig& c) {
  if (c.formulation != Formulation::ddpm) return;
  float first = unscaled_beta(c, 0);
  if (first > 0.0F && c.rescale_betas_zero_snr) first = betas_of(c).front();
  if (1.0F - first < 1.0F) return;
  throw base::ConfigError(
      "diffusion.{}: the first β is {:g}, which float32 loses beside 1, so that the first timestep has no noise and "
      "samplers divide by 0; wanted: 6e-8 or more",
      c.trained_betas.empty() ? "beta_start" : "trained_betas", first);
}

}  // namespace

void validate(const SchedulerConfig& c, const std::string& where) {
  const auto betas = static_cast<int64_t>(c.trained_betas.size());
  if (betas != 0 && betas != c.num_train_timesteps) {
    throw base::ConfigError("{}trained_betas has {} values; {}num_train_timesteps = {} are wanted", where, betas, where,
                            c.num_train_timesteps);
  }
  const auto whole = std::ranges::find(c.trained_betas, 1.0);
  if (whole != c.trained_betas.end() && std::next(whole) != c.trained_betas.end()) {
    throw base::ConfigError("{}trained_betas[{}] = 1, after which no image is left; wanted: below 1 but for the last",
                            where, whole - c.trained_betas.begin());
  }
  if (c.rescale_betas_zero_snr && c.num_train_timesteps < 2) {
    throw base::ConfigError("{}rescale_betas_zero_snr needs at least 2 timesteps; {}num_train_timesteps = {}", where,
                            where, c.num_train_timesteps);
  }
  if (c.sigma_min >= c.sigma_max) {
    throw base::ConfigError("{}sigma_min = {} is not below {}sigma_max = {}", where, c.sigma_min, where, c.sigma_max);
  }
  const auto& lowest = c.solver.karras_sigma_min;
  const auto& highest = c.solver.karras_sigma_max;
  if (lowest && highest && *lowest >= *highest) {
    throw base::ConfigError("{}sigma_min = {} is not below {}sigma_max = {}", where, *lowest, where, *highest);
  }
  if (c.formulation == Formulation::edm && c.prediction_type == PredictionType::sample) {
    throw base::ConfigError(
        "{}prediction_type = \"sample\" has no meaning for edm, whose network predicts a mixture; wanted: epsilon, or "
        "v_prediction for its negative",
        where);
  }
}

void validate(const DiffusionConfig& c) {
  validate(c.scheduler, "diffusion.");
  refuse_keys_without_meaning(c);
  const DiffusionConfig defaults;
  const bool shaped = c.logit_mean != defaults.logit_mean || c.logit_std != defaults.logit_std;
  if (shaped && c.timestep_sampler != TimestepSampler::logit_normal) {
    throw base::ConfigError(
        "diffusion.logit_mean and diffusion.logit_std have no meaning for diffusion.timestep_sampler = \"{}\"; wanted: "
        "logit_normal, or no such keys",
        base::name_of(c.timestep_sampler));
  }
  if (c.mean_model && c.condition_dropout > 0.0) {
    throw base::ConfigError(
        "diffusion.condition_dropout = {} cannot be used with diffusion.mean_model, which is given the condition; "
        "wanted: 0",
        c.condition_dropout);
  }
  // Where a sample holds no signal, predicting the noise says nothing about the image: the first step of sampling
  // divides by zero.
  if (c.scheduler.rescale_betas_zero_snr && c.scheduler.prediction_type == PredictionType::epsilon) {
    throw base::ConfigError(
        "diffusion.rescale_betas_zero_snr cannot be used with "
        "diffusion.prediction_type = \"epsilon\"; v_prediction and sample work");
  }
  const std::vector<double>& betas = c.scheduler.trained_betas;
  if (!betas.empty() && betas.back() == 1.0 && c.scheduler.prediction_type == PredictionType::epsilon) {
    throw base::ConfigError(
        "diffusion.trained_betas[{}] = 1 leaves no signal, and cannot be used with diffusion.prediction_type = "
        "\"epsilon\"; v_prediction and sample work",
        betas.size() - 1);
  }
  expect_noise(c.scheduler);
}

bool asks_noise_alone_for_noise(const SchedulerConfig& c) {
  return c.formulation == Formulation::ddpm && c.prediction_type == PredictionType::epsilon &&
         alphas_cumprod_of(betas_of(c)).back() == 0.0F;
}

}  // namespace ddpm::diffusion
