// The weights that a run's first start begins with.
#pragma once

#include <memory>

#include "denoise/image_record.h"
#include "denoise/pretrained.h"
#include "nn/unet2d.h"
#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::train {

/// Opens what model.pretrained or model.lora_adapters names for `unet`, which is trained on such `images`; null where
/// all that is trained is new. Warns where the weights were trained for another diffusion. Collective; throws
/// OutputError for weights that do not fit.
std::unique_ptr<denoise::PretrainedWeights> open_first_weights(const Config& config, const nn::UNet2D& unet,
                                                               const denoise::ImageRecord& images,
                                                               const run::Runtime& runtime);

}  // namespace ddpm::train
