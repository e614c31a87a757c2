// Writes a model as a folder that diffusers' DDPMPipeline.from_pretrained opens:
//
//   model_index.json  unet/{config.json, diffusion_pytorch_model.safetensors}  scheduler/scheduler_config.json
//   normalization.json (how stored values map to the model's range)  README.md (model card)
//   class_names.json (an array: the names of classes 0, 1, ...; only where they are known)
//
// Keys and values are those of diffusers 0.35's save_pretrained. Errors: base::OutputError (exit code 4).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "base/json.h"

namespace ddpm::nn {
struct UNet2DConfig;
}
namespace ddpm::diffusion {
struct DiffusionConfig;
}

namespace ddpm::interop {

/// A weight under diffusers' name ("conv_in.weight"), in diffusers' shape and axis order.
using NamedTensor = std::pair<std::string, at::Tensor>;

/// What the model card tells. Empty texts are left out.
struct ModelCard {
  std::string title = {};                     ///< first heading
  std::string dataset = {};                   ///< name or path of the training set
  int64_t dataset_images = 0;                 ///< 0: unknown
  int64_t steps = 0;                          ///< optimizer steps
  int64_t images_seen = 0;                    ///< over all steps
  std::string weights = {};                   ///< which weights these are: "raw", or "EMA (max_decay 0.9999)"
  std::string config_toml = {};               ///< the run's configuration, shown whole
  std::string program_version = {};           ///< of ddpm
  std::vector<std::string> class_names = {};  ///< of classes 0, 1, ..., also written as class_names.json
};

/// Writes the folder under a temporary sibling name, syncs it, and renames it to `directory`; an older folder of that
/// name stays in place until then and is removed afterwards. `weights` are stored as float32, whatever they are.
/// `normalization` is written as it is. Not collective: one rank calls it.
void write_diffusers_model(base::FileSystem& files, const base::Path& directory, const nn::UNet2DConfig& unet,
                           const diffusion::DiffusionConfig& diffusion, std::span<const NamedTensor> weights,
                           const base::Json& normalization, const ModelCard& card);

/// The text of README.md: a model card in Markdown with the metadata that model hubs read.
std::string model_card_text(const ModelCard& card, bool class_conditional, const base::Json& normalization);

}  // namespace ddpm::interop
