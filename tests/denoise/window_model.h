// A small model for tests of images that are drawn by windows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "denoise/loaded_model.h"
#include "nn/unet2d.h"

namespace ddpm::denoise {

/// A model of windows of these sides.
inline LoadedModel model_of(const std::vector<int64_t>& window, std::vector<bool> wraps = {},
                            std::vector<std::string> padding = {"zeros"}) {
  nn::UNet2DConfig c;
  c.sample_size = window;
  c.dimensions = static_cast<int64_t>(window.size());
  c.block_out_channels = {8, 8};
  c.down_block_types = {"DownBlock2D", "DownBlock2D"};
  c.up_block_types = {"UpBlock2D", "UpBlock2D"};
  c.norm_num_groups = 4;
  c.padding = std::move(padding);
  LoadedModel model;
  model.unet = std::make_unique<nn::UNet2D>(c);
  model.image.wraps = std::move(wraps);
  return model;
}

}  // namespace ddpm::denoise
