// What files of other programs say that a run should know: how their fields go on beyond the borders, and which times
// are missing.
#pragma once

#include "base/log.h"
#include "data/dataset.h"
#include "nn/config.h"

namespace ddpm::denoise {

/// Warns of each axis along which the fields are periodic and the model is not, or the other way round. Only files of
/// The Well say which they are.
void warn_of_boundaries(const nn::UNet2DConfig& model, const data::Dataset& dataset, const base::Logger& log);

/// Warns where pairs of times were left out.
void warn_of_missing_times(const data::Dataset& dataset, const base::Logger& log);

}  // namespace ddpm::denoise
