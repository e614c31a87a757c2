// Which blocks can follow each other in a UNet2D.
#pragma once

#include "nn/config.h"

namespace ddpm::nn {

/// Walks the blocks as diffusers' UNet2DModel does, with channels, resolutions and skips, and refuses what it cannot
/// run: throws base::ConfigError with the key, the block and the numbers. The lists of `c` have equal lengths and known
/// types.
void check_blocks(const UNet2DConfig& c);

}  // namespace ddpm::nn
