// What is diffused and what the model predicts: the keys of a diffusers scheduler, and those of training.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/schema.h"

namespace ddpm::diffusion {

enum class BetaSchedule : uint8_t { linear, scaled_linear, squaredcos_cap_v2, sigmoid };
constexpr auto names_of(BetaSchedule /*type*/) {
  return std::to_array<std::string_view>({"linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid"});
}

/// What the model predicts: ε, x_0 or v.
enum class PredictionType : uint8_t { epsilon, sample, v_prediction };
constexpr auto names_of(PredictionType /*type*/) {
  return std::to_array<std::string_view>({"epsilon", "sample", "v_prediction"});
}

/// Variance of the noise that ddpm sampling adds.
enum class VarianceType : uint8_t { fixed_small, fixed_small_log, fixed_large, fixed_large_log };
constexpr auto names_of(VarianceType /*type*/) {
  return std::to_array<std::string_view>({"fixed_small", "fixed_small_log", "fixed_large", "fixed_large_log"});
}

/// Which timesteps are visited when sampling takes fewer than all.
enum class TimestepSpacing : uint8_t { leading, linspace, trailing };
constexpr auto names_of(TimestepSpacing /*type*/) {
  return std::to_array<std::string_view>({"leading", "linspace", "trailing"});
}

/// How training draws timesteps.
enum class TimestepSampler : uint8_t { uniform };
constexpr auto names_of(TimestepSampler /*type*/) { return std::to_array<std::string_view>({"uniform"}); }

/// The keys of a diffusers `scheduler_config.json` that schedules and samplers read; the names and defaults are those
/// of `DDPMScheduler`. They travel with a model.
struct SchedulerConfig {
  int64_t num_train_timesteps = 1000;  ///< T; timesteps are 0 … T-1
  double beta_start = 0.0001;
  double beta_end = 0.02;
  BetaSchedule beta_schedule = BetaSchedule::linear;
  std::vector<double> trained_betas = {};  ///< T values that replace the formula; empty: none
  bool rescale_betas_zero_snr = false;
  PredictionType prediction_type = PredictionType::epsilon;
  VarianceType variance_type = VarianceType::fixed_small;
  std::optional<bool> clip_sample = std::nullopt;  ///< DDPMScheduler's default is true: see clips()
  double clip_sample_range = 1.0;
  bool thresholding = false;
  double dynamic_thresholding_ratio = 0.995;
  double sample_max_value = 1.0;
  TimestepSpacing timestep_spacing = TimestepSpacing::leading;
  int64_t steps_offset = 0;
  bool set_alpha_to_one = true;  ///< of DDIMScheduler: not a key of [diffusion], but of a model's JSON

  [[nodiscard]] bool clips() const { return clip_sample.value_or(true); }
};

/// The [diffusion] section.
struct DiffusionConfig {
  SchedulerConfig scheduler;
  double snr_gamma = 0.0;                                       ///< min-SNR weighting of the loss; 0: off
  double offset_noise = 0.0;                                    ///< amplitude of a normal per image and channel; 0: off
  TimestepSampler timestep_sampler = TimestepSampler::uniform;  ///< over 0 … T-1
};

void describe(config::Section& section, DiffusionConfig& c);
/// The keys of DDPMScheduler alone.
void describe(config::Section& section, SchedulerConfig& c);

/// Refuses values that no single key's range can: throws base::ConfigError with the key, the value seen and the one
/// wanted. `where` begins the message and the key's name ("diffusion." or "scheduler_config.json: ").
void validate(const SchedulerConfig& c, const std::string& where);
/// Checks the whole section: the scheduler's keys as above, and their combinations with the training keys.
void validate(const DiffusionConfig& c);

}  // namespace ddpm::diffusion
