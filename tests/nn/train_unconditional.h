#pragma once

#include "nn/config.h"

namespace ddpm::nn::test {

/// The model of diffusers' examples/unconditional_image_generation/train_unconditional.py.
inline UNet2DConfig train_unconditional() {
  UNet2DConfig c;
  c.block_out_channels = {128, 128, 256, 256, 512, 512};
  c.down_block_types = {"DownBlock2D", "DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"};
  c.up_block_types = {"UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"};
  return c;
}

}  // namespace ddpm::nn::test
