// A UNet's tensors as lists, for whatever stores or fills them and knows no UNet.
#pragma once

#include <vector>

#include "interop/diffusers_reader.h"
#include "nn/unet2d.h"
#include "run/snapshot.h"

namespace ddpm::denoise {

/// Returns the tensors of this model that checkpoints hold, with the values to which its parameters are bound, if any.
std::vector<run::ModelTensor> model_tensors(const nn::UNet2D& unet);

/// Names and shapes of the weights that a model folder must hold for this model; none of adapters.
interop::ExpectedShapes expected_shapes(const nn::UNet2D& unet);

/// Names and shapes of the weights of its adapters, by nn::Adapter's names.
interop::ExpectedShapes adapter_shapes(const nn::UNet2D& unet);

}  // namespace ddpm::denoise
