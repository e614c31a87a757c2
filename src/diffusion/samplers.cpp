#include "diffusion/samplers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <string_view>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "base/named.h"
#include "diffusion/sampler_formulas.h"

namespace ddpm::diffusion {
namespace {

// What a sampler's formulas hold for.
constexpr std::array kFormulationsOfDdpm = {Formulation::ddpm};
constexpr std::array kNoise = {Formulation::ddpm, Formulation::edm, Formulation::flow};
constexpr std::array kMean = {Formulation::regression};

struct SamplerKind {
  SamplerType type;
  std::unique_ptr<Sampler> (*make)(const SchedulerConfig&, const SamplerOptions&);
  std::span<const Formulation> formulations = kFormulationsOfDdpm;
  bool clips = false;       ///< whether it reads clip_sample, as diffusers' class does
  bool thresholds = false;  ///< whether it reads thresholding
  bool has_eta = false;
  bool has_churn = false;
  bool has_karras = false;
  bool has_spacings = true;  ///< otherwise it visits linspace timesteps
  bool skips_one = false;    ///< whether it visits all timesteps but one at most
  int64_t steps = 50;        ///< unless more or fewer are asked for; 0: all training timesteps
};

constexpr std::array kSamplers = {
    SamplerKind{.type = SamplerType::ddpm, .make = make_ddpm_sampler, .clips = true, .thresholds = true, .steps = 0},
    SamplerKind{
        .type = SamplerType::ddim, .make = make_ddim_sampler, .clips = true, .thresholds = true, .has_eta = true},
    SamplerKind{.type = SamplerType::dpmsolver_pp,
                .make = make_multistep_sampler,
                .formulations = kNoise,
                .thresholds = true,
                .has_karras = true,
                .skips_one = true},
    SamplerKind{.type = SamplerType::dpmsolver_pp_2s,
                .make = make_singlestep_sampler,
                .formulations = kNoise,
                .thresholds = true,
                .has_karras = true,
                .has_spacings = false,
                .skips_one = true},
    SamplerKind{.type = SamplerType::euler,
                .make = make_euler_sampler,
                .formulations = kNoise,
                .has_churn = true,
                .has_karras = true},
    SamplerKind{.type = SamplerType::heun,
                .make = make_heun_sampler,
                .formulations = kNoise,
                .clips = true,
                .has_churn = true,
                .has_karras = true},
    SamplerKind{.type = SamplerType::regression, .make = make_regression_sampler, .formulations = kMean, .steps = 1},
};

const SamplerKind& kind_of(SamplerType type) {
  const auto* kind = std::ranges::find(kSamplers, type, &SamplerKind::type);
  DDPM_CHECK(kind != kSamplers.end(), "a sampler is not in the table");
  return *kind;
}

/// The names of the samplers that can do what `able` asks.
std::string names_where(const std::function<bool(const SamplerKind&)>& able) {
  std::vector<std::string_view> names;
  for (const SamplerKind& kind : kSamplers) {
    if (able(kind)) names.push_back(base::name_of(kind.type));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool solves(const SamplerKind& kind, Formulation formulation) {
  return std::ranges::find(kind.formulations, formulation) != kind.formulations.end();
}

void check_formulation(const SchedulerConfig& config, const SamplerKind& kind, const SamplerOptions& options) {
  const std::string_view formulation = base::name_of(config.formulation);
  if (!solves(kind, config.formulation)) {
    throw base::ConfigError("--scheduler {}: the model's formulation is {}; wanted: one of {}",
                            base::name_of(kind.type), formulation,
                            names_where([&](const SamplerKind& k) { return solves(k, config.formulation); }));
  }
  if (options.churn > 0.0 && config.formulation != Formulation::edm) {
    throw base::ConfigError("--churn is known to models of formulation edm; this one is {}", formulation);
  }
  if (config.formulation == Formulation::ddpm) return;
  if (options.timestep_spacing || options.karras_sigmas) {
    throw base::ConfigError(
        "{}: the model's formulation is {}, which has no timesteps to choose from; wanted: no such option",
        options.timestep_spacing ? "--timestep-spacing" : "--karras-sigmas", formulation);
  }
}

/// A regression answers once.
int64_t most_steps(const SchedulerConfig& config) {
  return config.formulation == Formulation::regression ? 1 : config.num_train_timesteps;
}

void check_options(const SchedulerConfig& config, const SamplerKind& kind, const SamplerOptions& options) {
  check_formulation(config, kind, options);
  if (options.steps < 1 || options.steps > most_steps(config)) {
    if (config.formulation == Formulation::regression) {
      throw base::ConfigError("{} sampler steps; a regression takes 1", options.steps);
    }
    throw base::ConfigError("{} sampler steps; 1 to num_train_timesteps = {} are possible", options.steps,
                            config.num_train_timesteps);
  }
  if (!(options.eta >= 0.0 && options.eta <= 1.0)) throw base::ConfigError("eta = {}; 0 to 1 is wanted", options.eta);
  if (!(options.churn >= 0.0)) throw base::ConfigError("churn = {}; 0 or more is wanted", options.churn);
  if (options.eta > 0.0 && !kind.has_eta) {
    throw base::ConfigError("--eta {}: {} does not know it, only {}", options.eta, base::name_of(kind.type),
                            names_where([](const SamplerKind& k) { return k.has_eta; }));
  }
  if (options.churn > 0.0 && !kind.has_churn) {
    throw base::ConfigError("--churn {}: {} does not know it, only {}", options.churn, base::name_of(kind.type),
                            names_where([](const SamplerKind& k) { return k.has_churn; }));
  }
  if (options.karras_sigmas && !kind.has_karras) {
    throw base::ConfigError("--karras-sigmas: {} does not know it, only {}", base::name_of(kind.type),
                            names_where([](const SamplerKind& k) { return k.has_karras; }));
  }
  const bool other_spacing = options.timestep_spacing && *options.timestep_spacing != TimestepSpacing::linspace;
  if (other_spacing && !kind.has_spacings) {
    throw base::ConfigError("--timestep-spacing {}: {} visits linspace timesteps alone",
                            base::name_of(*options.timestep_spacing), base::name_of(kind.type));
  }
}

/// What the sampler reads of the model's scheduler.
SchedulerConfig resolve(const SchedulerConfig& config, const SamplerKind& kind, const SamplerOptions& options) {
  SchedulerConfig resolved = config;
  if (options.timestep_spacing) resolved.timestep_spacing = *options.timestep_spacing;
  if (!kind.has_spacings) resolved.timestep_spacing = TimestepSpacing::linspace;
  if (options.karras_sigmas) resolved.solver.use_karras_sigmas = true;
  if (!kind.clips || config.formulation != Formulation::ddpm) resolved.clip_sample = false;
  if (!kind.thresholds) resolved.thresholding = false;
  return resolved;
}

// A sample without signal would be divided by its signal; diffusers returns NaN there.
void check_start(const SchedulerConfig& config, const SamplerKind& kind, const Sampler& sampler) {
  if (config.formulation != Formulation::ddpm) return;
  const NoiseSchedule schedule(config);
  const auto first = std::llround(sampler.timesteps().front());
  if (schedule.prediction_type() == PredictionType::epsilon && schedule.alpha_cumprod(first) == 0.0F) {
    throw base::ConfigError(
        "prediction_type = \"epsilon\" says nothing at timestep {}, where the schedule holds no "
        "signal; {} begins below it",
        first,
        kind.has_spacings ? "leading timestep_spacing with fewer steps"
                          : "dpmsolver++ with --timestep-spacing leading");
  }
}

}  // namespace

int64_t default_steps(SamplerType sampler, const SchedulerConfig& config) {
  const SamplerKind& kind = kind_of(sampler);
  if (kind.steps == 0) return config.num_train_timesteps;
  return std::clamp<int64_t>(most_steps(config) - (kind.skips_one ? 1 : 0), 1, kind.steps);
}

SamplerType default_sampler(Formulation formulation) {
  switch (formulation) {
    case Formulation::ddpm:
      return SamplerType::ddpm;
    case Formulation::edm:
      return SamplerType::heun;
    case Formulation::flow:
      return SamplerType::euler;
    case Formulation::regression:
      return SamplerType::regression;
  }
  throw base::InternalError("formulation {}", static_cast<int>(formulation));
}

std::string default_samplers_text(SamplerType of_ddpm) {
  const auto name = [](Formulation formulation) { return base::name_of(default_sampler(formulation)); };
  return fmt::format("{}, or {} for models of edm, {} of flow and {} of regressions", base::name_of(of_ddpm),
                     name(Formulation::edm), name(Formulation::flow), name(Formulation::regression));
}

std::unique_ptr<Sampler> make_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  const SamplerKind& kind = kind_of(options.scheduler);
  check_options(config, kind, options);
  const SchedulerConfig resolved = resolve(config, kind, options);
  std::unique_ptr<Sampler> sampler = kind.make(resolved, options);
  check_start(resolved, kind, *sampler);
  return sampler;
}

}  // namespace ddpm::diffusion
