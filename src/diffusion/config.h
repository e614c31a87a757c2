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

/// A schedule has no more timesteps, and no sampler takes more steps.
inline constexpr int64_t kMostTimesteps = 1'000'000;

enum class BetaSchedule : uint8_t { linear, scaled_linear, squaredcos_cap_v2, sigmoid };
constexpr auto names_of(BetaSchedule /*type*/) {
  return std::to_array<std::string_view>({"linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid"});
}

/// How noise is mixed with an image, and what the network learns of it: a row of formulation.h.
enum class Formulation : uint8_t { ddpm, edm, flow, regression };
constexpr auto names_of(Formulation /*type*/) {
  return std::to_array<std::string_view>({"ddpm", "edm", "flow", "regression"});
}

/// The class in the scheduler_config.json that a model of this formulation gets: one of diffusers, but for regression,
/// which diffusers has none for and so refuses.
std::string_view scheduler_class(Formulation formulation);

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

/// What solves the reverse process, by the names of `ddpm sample --scheduler`: a row of samplers.h.
enum class SamplerType : uint8_t { ddpm, ddim, dpmsolver_pp, dpmsolver_pp_2s, euler, heun, regression };
constexpr auto names_of(SamplerType /*type*/) {
  return std::to_array<std::string_view>(
      {"ddpm", "ddim", "dpmsolver++", "dpmsolver++2s", "euler", "heun", "regression"});
}

/// How training draws timesteps.
enum class TimestepSampler : uint8_t { uniform, logit_normal };
constexpr auto names_of(TimestepSampler /*type*/) {
  return std::to_array<std::string_view>({"uniform", "logit_normal"});
}

/// The noise level that the last step of a solver leads to: none, or the lowest one of the schedule.
enum class FinalSigma : uint8_t { zero, sigma_min };
constexpr auto names_of(FinalSigma /*type*/) { return std::to_array<std::string_view>({"zero", "sigma_min"}); }

/// How dpmsolver++ uses the slope of its predictions. diffusers takes the last three for midpoint.
enum class SolverType : uint8_t { midpoint, heun, logrho, bh1, bh2 };
constexpr auto names_of(SolverType /*type*/) {
  return std::to_array<std::string_view>({"midpoint", "heun", "logrho", "bh1", "bh2"});
}

/// What diffusers' schedulers read beside the noise schedule when they solve the reverse process. These are keys of a
/// model's JSON, not of [diffusion].
struct SolverConfig {
  bool set_alpha_to_one = true;    ///< ddim's last step leads to a clean image
  bool use_karras_sigmas = false;  ///< Karras et al. 2022, eq. 5, between the levels that the spacing visits
  std::optional<double> karras_sigma_min = std::nullopt;  ///< ddpm: the lowest of them, where the file says which
  std::optional<double> karras_sigma_max = std::nullopt;  ///< ddpm: the highest
  bool lower_order_final = true;  ///< dpmsolver++: fewer than 15 steps end with one of first order
  bool euler_at_final = false;    ///< dpmsolver++: all do
  int64_t solver_order = 2;       ///< dpmsolver++
  SolverType solver_type = SolverType::midpoint;
  FinalSigma final_sigmas_type = FinalSigma::zero;
  std::optional<double> lambda_min_clipped = std::nullopt;  ///< dpmsolver++: timesteps of a lower ln(α/σ) are left out
};

/// The keys of a diffusers `scheduler_config.json` that schedules and samplers read; the names and defaults are those
/// of `DDPMScheduler`, and for other formulations of `EDMEulerScheduler` and `FlowMatchEulerDiscreteScheduler`. They
/// travel with a model.
struct SchedulerConfig {
  Formulation formulation = Formulation::ddpm;
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
  double sigma_data = 0.5;   ///< edm: deviation of the data
  double sigma_min = 0.002;  ///< edm: lowest noise level that sampling visits
  double sigma_max = 80.0;   ///< edm: the level that sampling starts from
  double rho = 7.0;          ///< edm: how much denser the levels of sampling lie near sigma_min
  double shift = 1.0;        ///< flow: t becomes shift t / (1 + (shift - 1) t)
  SolverConfig solver = {};

  [[nodiscard]] bool clips() const { return clip_sample.value_or(true); }
};

/// The [diffusion] section.
struct DiffusionConfig {
  SchedulerConfig scheduler;
  double snr_gamma = 0.0;                                       ///< min-SNR weighting of the loss; 0: off
  double offset_noise = 0.0;                                    ///< amplitude of a normal per image and channel; 0: off
  TimestepSampler timestep_sampler = TimestepSampler::uniform;  ///< ddpm: over 0 … T-1; flow: over (0, 1)
  double logit_mean = 0.0;         ///< logit_normal: t is the logistic function of a normal of this mean
  double logit_std = 1.0;          ///< and this deviation
  double p_mean = -1.2;            ///< edm: mean of ln σ
  double p_std = 1.2;              ///< edm: deviation of ln σ
  double class_dropout = 0.0;      ///< how often training replaces a label by the null class: see denoise/null_class.h
  double condition_dropout = 0.0;  ///< probability that an image is learned without its condition and parameters
  std::optional<std::string> mean_model = {};  ///< a folder: see denoise/mean_model.h
};

void describe(config::Section& section, DiffusionConfig& c);
/// The keys of DDPMScheduler alone.
void describe_ddpm(config::Section& section, SchedulerConfig& c);
/// The keys of dynamic thresholding, which are some of those.
void describe_thresholding(config::Section& section, SchedulerConfig& c);
/// The keys of EDMEulerScheduler that sampling reads.
void describe_edm(config::Section& section, SchedulerConfig& c);

/// The keys of `c` that its formulation and `formulation` both read; all others have their defaults.
SchedulerConfig keys_shared_with(const SchedulerConfig& c, Formulation formulation);

/// What a network is shown, told and asked for: the formulation and those of its keys that this depends on, each as
/// "prediction_type = \"epsilon\"".
std::vector<std::string> network_keys(const SchedulerConfig& c);
/// Which of them a network that was trained under `base` finds changed: "prediction_type = \"epsilon\" instead of
/// \"v_prediction\"". Another formulation is all that is named.
std::vector<std::string> changed_network_keys(const SchedulerConfig& base, const SchedulerConfig& now);

/// Throws base::ConfigError for a key that is set and that the formulation does not read: whoever set it is mistaken.
void refuse_keys_without_meaning(const DiffusionConfig& c);

}  // namespace ddpm::diffusion
