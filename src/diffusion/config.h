// What is diffused and what the model predicts: the keys of a diffusers scheduler, and those of training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"

namespace ddpm::diffusion {

/// The keys of a diffusers `scheduler_config.json` that schedules and samplers read; the names and defaults are those
/// of `DDPMScheduler`. They travel with a model.
struct SchedulerConfig {
  int64_t num_train_timesteps = 1000;  ///< T; timesteps are 0 … T-1
  double beta_start = 0.0001;
  double beta_end = 0.02;
  std::string beta_schedule = "linear";    ///< linear, scaled_linear, squaredcos_cap_v2, sigmoid
  std::vector<double> trained_betas = {};  ///< T values that replace the formula; empty: none
  bool rescale_betas_zero_snr = false;
  std::string prediction_type = "epsilon";         ///< epsilon, sample, v_prediction
  std::string variance_type = "fixed_small";       ///< fixed_small, fixed_small_log, fixed_large, fixed_large_log
  std::optional<bool> clip_sample = std::nullopt;  ///< DDPMScheduler's default is true: see clips()
  double clip_sample_range = 1.0;
  bool thresholding = false;
  double dynamic_thresholding_ratio = 0.995;
  double sample_max_value = 1.0;
  std::string timestep_spacing = "leading";  ///< leading, linspace, trailing
  int64_t steps_offset = 0;
  bool set_alpha_to_one = true;  ///< of DDIMScheduler: not a key of [diffusion], but of a model's JSON

  [[nodiscard]] bool clips() const { return clip_sample.value_or(true); }
};

/// The [diffusion] section.
struct DiffusionConfig {
  SchedulerConfig scheduler;
  double snr_gamma = 0.0;                    ///< min-SNR weighting of the loss; 0: off
  double offset_noise = 0.0;                 ///< amplitude of a normal per image and channel; 0: off
  std::string timestep_sampler = "uniform";  ///< uniform over 0 … T-1
};

void describe(config::Section& section, DiffusionConfig& c);
/// The keys of DDPMScheduler alone.
void describe(config::Section& section, SchedulerConfig& c);

/// Refuses values that no single key's range can: throws base::ConfigError with the key, the value seen and the one
/// wanted. `where` begins the message and the key's name ("diffusion." or "scheduler_config.json: ").
void validate(const SchedulerConfig& c, const std::string& where);
/// The same for the section, and for combinations with the training keys.
void validate(const DiffusionConfig& c);

}  // namespace ddpm::diffusion
