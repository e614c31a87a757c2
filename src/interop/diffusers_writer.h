// Writes a model as a folder that diffusers' DDPMPipeline.from_pretrained opens; of one that diffusers has no pipeline
// for, it opens the parts:
//
//   model_index.json  unet/{config.json, diffusion_pytorch_model.safetensors}  scheduler/scheduler_config.json
//   normalization.json (how stored values map to the model's range)  README.md (model card)
//   field_unet.py (only of a model that diffusers has no class for and refuses: see interop/field_unet.h)
//   mean_model/ (the regression that diffusion.mean_model named, a folder of the same kind)
//   export.py (makes a torch.export program of the model; only where the size of its images is known)
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
#include <c10/core/ScalarType.h>

#include "base/file_system.h"
#include "base/json.h"

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

/// What the model card tells. Empty texts are left out.
struct ModelCard {
  std::string title = {};                     ///< first heading
  std::string dataset = {};                   ///< name or path of the training set
  int64_t dataset_images = 0;                 ///< 0: unknown
  std::string earlier_datasets = {};          ///< the sets before, of a run that went on with another one
  int64_t steps = 0;                          ///< optimizer steps
  int64_t images_seen = 0;                    ///< over all steps
  std::string weights = {};                   ///< which weights these are: "raw", or "EMA (max_decay 0.9999)"
  std::string config_toml = {};               ///< the run's configuration, shown whole
  std::string program_version = {};           ///< of ddpm
  std::vector<std::string> class_names = {};  ///< of classes 0, 1, ..., also written as class_names.json
};

/// The file scheduler/scheduler_config.json, and what the other files say of it.
struct WrittenScheduler {
  diffusion::Formulation formulation;
  std::string class_name;  ///< of diffusers
  std::string text;

  WrittenScheduler(diffusion::Formulation kind, std::string name, std::string content)
      : formulation(kind), class_name(std::move(name)), text(std::move(content)) {}
  /// What a model that was trained here has.
  WrittenScheduler(const diffusion::SchedulerConfig& config);  // NOLINT(google-explicit-constructor)
};

/// Where the regression lies that a model was trained with.
inline constexpr const char* kMeanFolder = "mean_model";

/// What a folder is made of.
struct WrittenModel {
  const nn::UNet2DConfig& unet;
  WrittenScheduler scheduler;
  std::span<const NamedTensor> weights;  ///< stored in `dtype`, whatever they are
  const base::Json& normalization;       ///< written as it is
  const ModelCard& card;
  const WrittenModel* mean = nullptr;  ///< a regression whose answers are added to samples, in the folder mean_model/
  /// float32, bfloat16 or float16, to which weights are rounded as PyTorch does, to the nearest and if two are as near
  /// to the even one. The file has the same name in all of them, as that of save_pretrained without a `variant` has.
  at::ScalarType dtype = at::kFloat;
};

/// Writes the folder under a temporary sibling name, syncs it, and renames it to `directory`; an older folder of that
/// name stays in place until then and is removed afterwards. Not collective: one rank calls it.
void write_diffusers_model(base::FileSystem& files, const base::Path& directory, const WrittenModel& model);

/// Whether the network is told whole timesteps, and not noise levels or times between them.
bool takes_whole_timesteps(const nn::UNet2DConfig& unet, diffusion::Formulation formulation);

/// The weight in `dtype`, row-major on the host. Throws base::OutputError where float16 cannot hold one of its values.
at::Tensor rounded_weight(const std::string& name, const at::Tensor& weight, at::ScalarType dtype);

/// The text of export.py, which makes a torch.export program of the model: PyTorch keeps such programs where it gives
/// up TorchScript, and only Python makes them. "" for a model without a sample_size, whose images have no size.
std::string export_script(const WrittenModel& model);

/// The text of README.md: a model card in Markdown with the metadata that model hubs read.
std::string model_card_text(const WrittenModel& model);

}  // namespace ddpm::interop
