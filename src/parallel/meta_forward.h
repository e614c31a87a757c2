// A forward pass of the UNet that computes shapes and no values: what counts of memory and traffic are made from.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/unet2d.h"

namespace ddpm::parallel {

/// A micro-batch, as the model sees it: of images that are cut, a tile of each.
struct ActivationBatch {
  int64_t images = 1;
  int64_t height = 0;
  int64_t width = 0;
  const nn::Partition* partition = &nn::whole_image();
};

/// Binds the parameters of a model to the meta device, as training binds them.
void bind_on_meta(nn::UNet2D& unet, at::ScalarType compute_dtype);

/// Runs the units of `unet` by `executor`, as in training, where its parameters are, of images of zeros.
at::Tensor forward_on_meta(const nn::UNet2D& unet, const ActivationBatch& batch, nn::UnitExecutor& executor);

}  // namespace ddpm::parallel
