// Which images a model is trained on, as it remembers them.
#pragma once

#include "data/dataset.h"
#include "denoise/image_record.h"
#include "denoise/patch.h"

namespace ddpm::denoise {

/// Sides are those of the patch. Class names count where labels are read.
ImageRecord record_images(const data::Dataset& dataset, bool positions, const Patch& patch);

}  // namespace ddpm::denoise
