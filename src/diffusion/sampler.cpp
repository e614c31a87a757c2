#include "diffusion/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "diffusion/solver.h"

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
  const std::string& spacing = config.timestep_spacing;
  if (spacing != "leading" && spacing != "linspace" && spacing != "trailing") {
    throw base::ConfigError("timestep_spacing = \"{}\" is not leading, linspace or trailing", spacing);
  }
}

// A sample without signal divided by its signal: what diffusers returns there is not a number.
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

at::Tensor timestep_tensor(double timestep, const at::Tensor& x) {
  const bool whole = timestep == std::floor(timestep);
  return at::full({x.size(0)}, timestep, x.options().dtype(whole ? at::kLong : at::kFloat));
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

at::Tensor Sampler::scale_input(const at::Tensor& sample, std::size_t) const { return sample; }

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

at::Tensor sample(Sampler& sampler, const SampleNoise& fresh, const at::Tensor& noise, const Denoiser& denoise,
                  const SampleProgress& progress) {
  const at::NoGradGuard no_grad;
  DDPM_CHECK(noise.dim() == 4, "initial noise of {} axes", noise.dim());
  const ImageShape shape{.channels = noise.size(1), .height = noise.size(2), .width = noise.size(3)};
  at::Tensor x = noise.to(at::kFloat) * sampler.init_noise_sigma();
  const std::size_t steps = sampler.timesteps().size();
  for (std::size_t i = 0; i < steps; ++i) {
    const at::Tensor input = sampler.scale_input(x, i);
    const at::Tensor output = denoise(input, timestep_tensor(sampler.timesteps()[i], x)).to(at::kFloat);
    at::Tensor added;
    if (sampler.needs_noise(i)) {
      added =
          image_normals(fresh.seed, base::Stream::sample_step, i, fresh.first_image, x.size(0), shape).to(x.device());
    }
    x = sampler.step(output, i, x, added);
    if (progress) progress(i + 1, steps);
  }
  return x;
}

}  // namespace ddpm::diffusion
