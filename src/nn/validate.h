// What a UNet2DConfig must satisfy beyond the ranges of its keys.
#pragma once

#include "nn/config.h"

namespace ddpm::nn {

/// Refuses what cannot be built: lists of unequal length, unknown block types, channels that groups or heads do not
/// divide, an embedding without its size. Throws base::ConfigError naming the key, the value seen and the one wanted.
void validate(const UNet2DConfig& c);

}  // namespace ddpm::nn
