// A model small enough for tests, with weights of its own.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "diffusion/config.h"
#include "interop/diffusers_reader.h"
#include "interop/diffusers_writer.h"
#include "nn/unet2d.h"
#include "support/temporary_folder.h"

namespace ddpm::interop {

inline nn::UNet2DConfig tiny_config() {
  nn::UNet2DConfig config;
  config.sample_size = {16};
  config.block_out_channels = {16, 32};
  config.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
  config.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
  config.layers_per_block = 1;
  config.norm_num_groups = 8;
  return config;
}

struct TinyModel {
  explicit TinyModel(const nn::UNet2DConfig& config) : unet(config) {
    nn::allocate(unet.parameters(), at::kFloat);
    nn::initialize(unet.parameters(), 7);
  }
  [[nodiscard]] std::vector<NamedTensor> weights() const {
    std::vector<NamedTensor> named;
    for (const nn::Parameter* parameter : unet.parameters()) named.emplace_back(parameter->name, parameter->value);
    return named;
  }
  [[nodiscard]] ExpectedShapes shapes() const {
    ExpectedShapes shapes;
    for (const nn::Parameter* parameter : unet.parameters()) shapes[parameter->name] = parameter->shape;
    return shapes;
  }
  void write(const base::Path& folder) const {
    const diffusion::DiffusionConfig diffusion;
    write(folder, diffusion);
  }
  void write(const base::Path& folder, const diffusion::DiffusionConfig& diffusion) const {
    const auto files = base::posix_file_system();
    const ModelCard card{.title = "Tiny",
                         .dataset = "shapes",
                         .dataset_images = 100,
                         .steps = 5,
                         .images_seen = 40,
                         .weights = "raw",
                         .config_toml = "[train]\nsteps = 5\n",
                         .program_version = "1",
                         .class_names = class_names};
    const base::Json normalization = {{"dtype", "uint8"}};
    write_diffusers_model(*files, folder, {unet.config(), diffusion.scheduler, weights(), normalization, card});
  }

  nn::UNet2D unet;
  std::vector<std::string> class_names = {};
};

}  // namespace ddpm::interop
