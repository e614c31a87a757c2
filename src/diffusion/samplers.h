// The samplers by their names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "diffusion/sampler.h"

namespace ddpm::diffusion {

/// "ddpm", "ddim".
const std::vector<std::string>& sampler_names();

/// Throws base::ConfigError for an unknown scheduler or spacing, steps out of range, or a schedule that the sampler
/// cannot start from (epsilon prediction at zero signal-to-noise ratio).
std::unique_ptr<Sampler> make_sampler(const SchedulerConfig& config, const SamplerOptions& options);

}  // namespace ddpm::diffusion
