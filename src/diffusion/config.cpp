#include "diffusion/config.h"

#include <algorithm>

#include "base/error.h"

namespace ddpm::diffusion {
namespace {

void describe_schedule(config::Section& section, SchedulerConfig& c) {
  section
      .key("num_train_timesteps", c.num_train_timesteps, "Number of timesteps T of the diffusion process.",
           {.min = 1, .max = 1e6})
      .key("beta_start", c.beta_start, "First noise variance of the linear, scaled_linear and sigmoid schedules.",
           {.min = 0.0, .max = 1.0, .above_min = true, .below_max = true})
      .key("beta_end", c.beta_end, "Last noise variance of those schedules.",
           {.min = 0.0, .max = 1.0, .above_min = true, .below_max = true})
      .key("beta_schedule", c.beta_schedule, "How the noise variance grows with the timestep.")
      .key("trained_betas", c.trained_betas, "num_train_timesteps noise variances in place of a schedule.",
           {.min = 0.0, .max = 1.0, .above_min = true, .default_text = "none"})
      .key("rescale_betas_zero_snr", c.rescale_betas_zero_snr,
           "Rescale the variances so that the last timestep holds no signal at all.")
      .key("prediction_type", c.prediction_type,
           "What the model predicts: the noise, the clean image, or the velocity between them.");
}

void describe_sampling(config::Section& section, SchedulerConfig& c) {
  section.key("variance_type", c.variance_type, "Variance of the noise that ddpm sampling adds.")
      .key("clip_sample", c.clip_sample, "Clamp predicted clean images while sampling.",
           {.default_text = "true; false for a float32 training set"})
      .key("clip_sample_range", c.clip_sample_range, "Largest magnitude that clip_sample leaves.",
           {.min = 0.0, .above_min = true})
      .key("thresholding", c.thresholding, "Scale predicted clean images by a quantile of their magnitudes instead.")
      .key("dynamic_thresholding_ratio", c.dynamic_thresholding_ratio, "That quantile.", {.min = 0.0, .max = 1.0})
      .key("sample_max_value", c.sample_max_value, "Largest value of that quantile that is used.", {.min = 1.0})
      .key("timestep_spacing", c.timestep_spacing, "Which timesteps are visited when sampling takes fewer than all.")
      .key("steps_offset", c.steps_offset, "Added to the timesteps of leading spacing.", {.min = 0, .max = 1e6});
}

void describe_training(config::Section& section, DiffusionConfig& c) {
  section
      .key("snr_gamma", c.snr_gamma, "γ of the min-SNR weighting of the loss (5 is usual). 0: every timestep counts 1.",
           {.min = 0.0})
      .key("offset_noise", c.offset_noise, "Size of a random shift of each image's and channel's noise. 0: none.",
           {.min = 0.0})
      .key("timestep_sampler", c.timestep_sampler, "How training draws timesteps.");
}

}  // namespace

void describe(config::Section& section, SchedulerConfig& c) {
  describe_schedule(section, c);
  describe_sampling(section, c);
}

void describe(config::Section& section, DiffusionConfig& c) {
  describe(section, c.scheduler);
  describe_training(section, c);
}

void validate(const SchedulerConfig& c, const std::string& where) {
  const auto betas = static_cast<int64_t>(c.trained_betas.size());
  if (betas != 0 && betas != c.num_train_timesteps) {
    throw base::ConfigError("{}trained_betas has {} values; {}num_train_timesteps = {} are wanted", where, betas, where,
                            c.num_train_timesteps);
  }
  if (c.rescale_betas_zero_snr && c.num_train_timesteps < 2) {
    throw base::ConfigError("{}rescale_betas_zero_snr needs at least 2 timesteps; {}num_train_timesteps = {}", where,
                            where, c.num_train_timesteps);
  }
}

void validate(const DiffusionConfig& c) {
  validate(c.scheduler, "diffusion.");
  // Where a sample holds no signal, predicting the noise says nothing about the image: the first step of sampling
  // divides by zero.
  if (c.scheduler.rescale_betas_zero_snr && c.scheduler.prediction_type == PredictionType::epsilon) {
    throw base::ConfigError(
        "diffusion.rescale_betas_zero_snr cannot be used with "
        "diffusion.prediction_type = \"epsilon\"; v_prediction and sample work");
  }
}

}  // namespace ddpm::diffusion
