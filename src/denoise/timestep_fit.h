// Whether a network can be told the noise levels of a formulation, and the classes of images.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "diffusion/config.h"
#include "nn/config.h"

namespace ddpm::denoise {

/// What is wrong with the model's time embedding for the scheduler's formulation, or "": a learned table has rows for
/// whole timesteps only, and fourier features take the logarithm of what they are told, of which edm's ¼ ln σ may be
/// negative.
std::string timestep_problem(const nn::UNet2DConfig& model, const diffusion::SchedulerConfig& scheduler);

/// What is wrong with the time embedding for training, which visits every noise level, or "": a table must have a row
/// for each timestep, and fourier features have no logarithm of ddpm's timestep 0.
std::string training_problem(const nn::UNet2DConfig& model, const diffusion::SchedulerConfig& scheduler);

/// What is wrong with the timesteps that a sampler tells the model, or "".
std::string visited_problem(const nn::UNet2DConfig& model, std::span<const double> timesteps);

/// What is wrong with `label`, or "": class_embed_type = "timestep" embeds it as the time is embedded.
std::string label_problem(const nn::UNet2DConfig& model, int64_t label);

}  // namespace ddpm::denoise
