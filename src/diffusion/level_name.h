// What people call a level of noise.
#pragma once

#include <string>

#include "diffusion/formulation.h"

namespace ddpm::diffusion {

/// "t 62" of ddpm, "sigma 0.301" of edm, "t 0.25" of flow, "no noise" of a regression: of the first image of `noise`.
std::string level_name(const DiffusionConfig& config, const TrainingNoise& noise);

}  // namespace ddpm::diffusion
