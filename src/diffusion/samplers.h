// The samplers by their types.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "diffusion/sampler.h"

namespace ddpm::diffusion {

/// The sampler that the paper of a formulation draws with: ddpm, heun (edm), euler (flow), regression.
SamplerType default_sampler(Formulation formulation);
/// "ddpm, or heun for models of edm, euler of flow and regression of regressions", for a command that draws with
/// `of_ddpm` where the formulation is ddpm.
std::string default_samplers_text(SamplerType of_ddpm = default_sampler(Formulation::ddpm));

/// How many steps `sampler` takes unless told otherwise: ddpm all training timesteps, a regression 1, the others 50, or
/// as many as the model's timesteps allow.
int64_t default_steps(SamplerType sampler, const SchedulerConfig& config);

/// Throws base::ConfigError for steps out of range, an option or a formulation that the sampler does not know, or a
/// schedule that it cannot start from (epsilon prediction at zero signal-to-noise ratio).
std::unique_ptr<Sampler> make_sampler(const SchedulerConfig& config, const SamplerOptions& options);

}  // namespace ddpm::diffusion
