#include "diffusion/samplers.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/ranges.h>

#include "base/error.h"
#include "diffusion/sampler_formulas.h"

namespace ddpm::diffusion {
namespace {

struct SamplerKind {
  std::string_view name;
  std::unique_ptr<Sampler> (*make)(const SchedulerConfig&, const SamplerOptions&);
};

constexpr std::array kSamplers = {
    SamplerKind{"ddpm", make_ddpm_sampler},
    SamplerKind{"ddim", make_ddim_sampler},
};

void check_options(const SchedulerConfig& config, const SamplerOptions& options) {
  if (options.steps < 1 || options.steps > config.num_train_timesteps) {
    throw base::ConfigError("{} sampler steps; 1 to num_train_timesteps = {} are possible", options.steps,
                            config.num_train_timesteps);
  }
  if (!(options.eta >= 0.0 && options.eta <= 1.0)) throw base::ConfigError("eta = {}; 0 to 1 is wanted", options.eta);
}

// A sample without signal would be divided by its signal; diffusers returns NaN there.
void check_start(const SchedulerConfig& config, const Sampler& sampler) {
  const NoiseSchedule schedule(config);
  const auto first = static_cast<int64_t>(sampler.timesteps().front());
  if (schedule.prediction_type() == PredictionType::epsilon && schedule.alpha_cumprod(first) == 0.0F) {
    throw base::ConfigError(
        "prediction_type = \"epsilon\" says nothing at timestep {}, where the schedule holds no signal; leading "
        "timestep_spacing with fewer steps begins below it",
        first);
  }
}

}  // namespace

const std::vector<std::string>& sampler_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const SamplerKind& kind : kSamplers) list.emplace_back(kind.name);
    return list;
  }();
  return names;
}

std::unique_ptr<Sampler> make_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  SchedulerConfig resolved = config;
  if (options.timestep_spacing) resolved.timestep_spacing = *options.timestep_spacing;
  const auto* kind = std::find_if(kSamplers.begin(), kSamplers.end(),
                                  [&](const SamplerKind& k) { return k.name == options.scheduler; });
  if (kind == kSamplers.end()) {
    throw base::ConfigError("\"{}\" is not a sampler; known are {}", options.scheduler,
                            fmt::join(sampler_names(), ", "));
  }
  check_options(resolved, options);
  std::unique_ptr<Sampler> sampler = kind->make(resolved, options);
  check_start(resolved, *sampler);
  return sampler;
}

}  // namespace ddpm::diffusion
