// Dropout whose mask is a pure function of (seed, layer, step, position in the global batch, element of the image).
//
// Srivastava et al., 2014, scaled while training. How a batch is cut into ranks and micro-batches changes no mask.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/partition.h"
#include "nn/unit.h"

namespace ddpm::nn {

/// Returns 0 with probability p and 1 / (1 - p) otherwise, for bands of rows of images [N, C, H, W], in float32 on the
/// CPU. Element e of an image's global CHW order is dropped where number e of the layer's sequence for that image is
/// below p.
at::Tensor dropout_mask(at::IntArrayRef shape, const TilePlace& rows, double p, uint32_t layer,
                        const RandomContext& random);

/// x times its mask, which is made where x is (the operator ddpm::dropout_mask, with the same bits on CPU and GPU),
/// while training; x itself when not training or when p is 0. `layer` counts the model's dropout layers.
at::Tensor dropout(const at::Tensor& x, double p, uint32_t layer, const ForwardContext& context);

}  // namespace ddpm::nn
