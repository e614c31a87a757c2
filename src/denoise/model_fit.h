// Whether a model and a set of images fit each other.
#pragma once

#include "data/dataset.h"
#include "nn/config.h"

namespace ddpm::denoise {

/// Refuses a model that cannot be trained on these images: channels, size, labels. Returns the model with the images'
/// size as its sample_size. Throws DatasetError.
nn::UNet2DConfig fit_model(const nn::UNet2DConfig& model, const data::Dataset& dataset);

}  // namespace ddpm::denoise
