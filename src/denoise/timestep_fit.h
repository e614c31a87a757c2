// Whether a network can be told the noise levels of a formulation.
#pragma once

#include <string>

#include "diffusion/config.h"
#include "nn/config.h"

namespace ddpm::denoise {

/// What is wrong with the model's time embedding for the scheduler's noise levels, or "": a learned table has rows for
/// whole timesteps only, and fourier features take the logarithm of what they are told, of which edm's ¼ ln σ may be
/// negative.
std::string timestep_problem(const nn::UNet2DConfig& model, const diffusion::SchedulerConfig& scheduler);

}  // namespace ddpm::denoise
