// A UNet's tensors as lists, for whatever stores or fills them and knows no UNet.
#pragma once

#include <vector>

#include "interop/diffusers_reader.h"
#include "nn/unet2d.h"
#include "run/snapshot.h"

namespace ddpm::denoise {

/// What checkpoints hold of this model; values are those that its parameters are bound to, if they are.
std::vector<run::ModelTensor> model_tensors(const nn::UNet2D& unet);

/// Names and shapes of the weights that a model folder must hold for this model.
interop::ExpectedShapes expected_shapes(const nn::UNet2D& unet);

}  // namespace ddpm::denoise
