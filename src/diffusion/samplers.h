// The samplers by their names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "diffusion/sampler.h"

namespace ddpm::diffusion {

/// "ddpm", "ddim", "dpmsolver++", "dpmsolver++2s", "euler", "heun", "regression".
const std::vector<std::string>& sampler_names();

/// The sampler that the paper of a formulation draws with: ddpm, heun (edm), euler (flow), regression.
std::string default_sampler(Formulation formulation);

/// How many steps `sampler` takes unless told otherwise: ddpm all training timesteps, a regression 1, the others 50.
/// Throws base::ConfigError for an unknown name.
int64_t default_steps(const std::string& sampler, const SchedulerConfig& config);

/// Throws base::ConfigError for an unknown scheduler or spacing, steps out of range, an option or a formulation that
/// the sampler does not know, or a schedule that it cannot start from (epsilon prediction at zero signal-to-noise
/// ratio).
std::unique_ptr<Sampler> make_sampler(const SchedulerConfig& config, const SamplerOptions& options);

}  // namespace ddpm::diffusion
