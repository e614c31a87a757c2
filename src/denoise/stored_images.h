// From what a model makes to what a dataset stores.
#pragma once

#include <ATen/core/Tensor.h>

#include "data/field.h"
#include "denoise/image_record.h"

namespace ddpm::denoise {

/// Images in the model's range, float32 [n, C, H, W], as their training set stores them: the inverse of its transforms.
/// Values of a uint8 set are rounded and clamped, but stay float32.
at::Tensor stored_images(const at::Tensor& images, const ImageRecord& image);

/// Throws ConfigError where --denormalize has no inverse: a transform is a grid, which has a number for each point of
/// the training set's images, and images are of another size.
void expect_invertible(const ImageRecord& image);

/// The field "/images" of a dataset that holds such images: with `denormalized` in the type and with the transforms of
/// their training set, otherwise float32 values in the model's range.
data::Field stored_field(const ImageRecord& image, int64_t channels, bool denormalized);

}  // namespace ddpm::denoise
