// Whether a model continues images beyond their borders as the set's files say that its fields go on.
#pragma once

#include "base/log.h"
#include "data/dataset.h"
#include "nn/config.h"

namespace ddpm::denoise {

/// Warns of each axis along which the fields are periodic and the model is not, or the other way round. Only files of
/// The Well say which they are.
void warn_of_boundaries(const nn::UNet2DConfig& model, const data::Dataset& dataset, const base::Logger& log);

}  // namespace ddpm::denoise
