// What a rank holds of each image where several draw or train on the same ones.
#pragma once

#include "nn/partition.h"

namespace ddpm::denoise {

/// This rank's part of images as a model sees it, and as the regression does that is taken off them (mean_model.h).
/// Both outlive who uses them.
struct TilePair {
  const nn::Partition* model = &nn::whole_image();
  const nn::Partition* mean = &nn::whole_image();
};

}  // namespace ddpm::denoise
