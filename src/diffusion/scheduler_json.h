// A model's scheduler_config.json, as diffusers writes and reads it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "diffusion/config.h"

namespace ddpm::diffusion {

/// The defaults of the diffusers class that implements `sampler`.
SchedulerConfig scheduler_defaults(SamplerType sampler);

/// The formulation of the model that a scheduler's file belongs to, by the class that wrote it; ddpm where the file
/// names none. Throws base::OutputError with `origin` for a class that is not known: it may describe a process that
/// none of the formulations is.
Formulation formulation_of(const base::Json& json, const std::string& origin);

/// Whether a class of diffusers, such as EulerDiscreteScheduler, starts from noise times its init_noise_sigma, and the
/// network is to be shown what its scale_model_input makes of images.
bool scales_input(std::string_view scheduler_class);
/// Whether step() of a scheduler of that class takes a generator, which diffusers' DDPMPipeline gives to any.
bool takes_generator(std::string_view scheduler_class);

/// Reads the known keys of `json`, whichever class wrote it; missing and null ones take scheduler_defaults(sampler),
/// but null for true or false is false. The class that wrote it, or use_flow_sigmas, says which formulation the model
/// has: see formulation_of(). Unknown keys are ignored, as diffusers ignores them. Throws base::OutputError with
/// `origin`, key and value for a value of a wrong type, out of range, or not supported (learned variances, other sigma
/// schedules than Karras').
SchedulerConfig read_scheduler(const base::Json& json, SamplerType sampler, const std::string& origin);

/// The keys and values of the file of scheduler_class(c.formulation), as far as ddpm reads them, sorted as diffusers
/// sorts them, with `_class_name`.
base::OrderedJson write_scheduler(const SchedulerConfig& c);

}  // namespace ddpm::diffusion
