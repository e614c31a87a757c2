// Validation losses on a grid of noise levels, by level and by variable.
#pragma once

#include <ATen/core/Tensor.h>

#include "data/field.h"
#include "diffusion/config.h"
#include "observe/metrics.h"

namespace ddpm::train {

/// The means of `losses`, float64 [images, levels, channels] of denoise::ValidationSet::grid_losses(), at each level:
/// by the names "t_62" of ddpm, "sigma_0.301" of edm, "t_0.25" of flow, "no_noise" of a regression. Levels of one name
/// appear once.
observe::NamedValues losses_by_level(const at::Tensor& losses, const diffusion::DiffusionConfig& config);

/// The means of `losses` for each channel, by the names of the variables of `images`, where there are several and they
/// are no pictures; otherwise nothing.
observe::NamedValues losses_by_variable(const at::Tensor& losses, const data::Field& images);

}  // namespace ddpm::train
