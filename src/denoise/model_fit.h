// Whether a model fits a set of images, or the record of such a set.
#pragma once

#include "data/dataset.h"
#include "denoise/image_record.h"
#include "denoise/patch.h"
#include "nn/config.h"

namespace ddpm::denoise {

/// model.sample_size of a model of such images: their sides, of square images one number.
std::vector<int64_t> model_size(const data::ImageFormat& image);

/// Refuses a model that cannot be trained on these images, and what is given with them (with `positions`, where each
/// pixel lies): channels, size, labels, parameters. Returns the model as it is trained: with the patch's size as its
/// sample_size, zeros along the axes where windows wrap, and the set's number of parameters. Throws DatasetError.
nn::UNet2DConfig fit_model(const nn::UNet2DConfig& model, const data::Dataset& dataset, bool positions,
                           const Patch& patch);

/// Refuses a model of whose channels and numbers the record of its images does not say what each is. Throws
/// OutputError.
void expect_record_of(const nn::UNet2DConfig& model, const ImageRecord& record);

}  // namespace ddpm::denoise
