// From stored images to what the model sees.
#pragma once

#include <ATen/core/Tensor.h>

#include "data/format.h"
#include "data/loader.h"

namespace ddpm::train {

/// Images as float32 [n, C, H, W], channels-last in memory, in the model's range (about [-1, 1]), on `device`.
at::Tensor normalize(const data::MicroBatch& batch, const data::ImageFormat& format, const data::Normalization& map,
                     at::Device device);

/// Mirrors left and right those images whose coin, a pure function of (seed, step, position), says so.
at::Tensor random_horizontal_flip(const at::Tensor& x0, const data::MicroBatch& batch, uint64_t seed);

/// Labels as int64 [n] on `device`, or undefined without labels.
at::Tensor label_tensor(const data::MicroBatch& batch, at::Device device);

}  // namespace ddpm::train
