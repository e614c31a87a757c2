// The variances β of ddpm's forward process, and what is left of an image after them. They need no LibTorch.
//
// Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models" (2020), eq. 2 and 4.
#pragma once

#include <cstdint>
#include <vector>

#include "diffusion/config.h"

namespace ddpm::diffusion {

/// β of timestep 0 ≤ t < T, as trained_betas or beta_schedule has it, before it is rescaled. Computed as diffusers
/// does, in float32 where it does, but each operation is rounded by itself.
float unscaled_beta(const SchedulerConfig& c, int64_t t);

/// β of all timesteps, [T], rescaled where `c` says so.
std::vector<float> betas_of(const SchedulerConfig& c);

/// ᾱ, [T]: the products of 1 - β up to each timestep. Float32 rounds them to 0 where little signal is left.
std::vector<float> alphas_cumprod_of(const std::vector<float>& betas);

}  // namespace ddpm::diffusion
