// What the keys of a diffusion process must satisfy beyond their ranges.
#pragma once

#include <string>

#include "diffusion/config.h"

namespace ddpm::diffusion {

/// Refuses values that no single key's range can: throws base::ConfigError with the key, the value seen and the one
/// wanted. `where` begins the message and the key's name ("diffusion." or "scheduler_config.json: ").
void validate(const SchedulerConfig& c, const std::string& where);
/// Checks the whole section: the scheduler's keys as above, their combinations with the training keys, and that no key
/// is set which the formulation does not read.
void validate(const DiffusionConfig& c);
/// Whether a model of ddpm predicts noise where float32 leaves no signal at the last timestep: ddpm and ddim cannot
/// begin to draw there. Not refused, since solvers can, which begin at a finite level.
bool asks_noise_alone_for_noise(const SchedulerConfig& c);

}  // namespace ddpm::diffusion
