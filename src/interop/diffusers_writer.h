// Writes a model as a folder that diffusers' DDPMPipeline.from_pretrained opens; of one that diffusers has no pipeline
// for, it opens the parts:
//
//   model_index.json  unet/{config.json, diffusion_pytorch_model.safetensors}  scheduler/scheduler_config.json
//   normalization.json (how stored values map to the model's range)  README.md (model card)
//   field_unet.py (only of a model that diffusers has no class for and refuses: see interop/field_unet.h)
//   mean_model/ (the regression that diffusion.mean_model named, a folder of the same kind)
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
#include "interop/model_card.h"

namespace ddpm::nn {
struct UNet2DConfig;
}
namespace ddpm::diffusion {
struct SchedulerConfig;
enum class Formulation : uint8_t;
}  // namespace ddpm::diffusion

namespace ddpm::interop {

/// A weight under diffusers' name ("conv_in.weight"), in diffusers' shape and axis order.
using NamedTensor = std::pair<std::string, at::Tensor>;

/// Where the regression lies that a model was trained with.
inline constexpr const char* kMeanFolder = "mean_model";

/// What a folder is made of.
struct WrittenModel {
  const nn::UNet2DConfig& unet;
  const diffusion::SchedulerConfig& scheduler;
  std::span<const NamedTensor> weights;  ///< stored as float32, whatever they are
  const base::Json& normalization;       ///< written as it is
  const ModelCard& card;
  const WrittenModel* mean = nullptr;  ///< a regression whose answers are added to samples, in the folder mean_model/
};

/// Writes the folder under a temporary sibling name, syncs it, and renames it to `directory`; an older folder of that
/// name stays in place until then and is removed afterwards. Not collective: one rank calls it.
void write_diffusers_model(base::FileSystem& files, const base::Path& directory, const WrittenModel& model);

}  // namespace ddpm::interop
