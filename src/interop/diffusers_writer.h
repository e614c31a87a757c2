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

#include <functional>
#include <set>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "base/file_system.h"
#include "interop/written_model.h"

namespace ddpm::nn {
struct Parameter;
}

namespace ddpm::interop {

/// Writes the folder under a temporary sibling name, syncs it, and renames it to `directory`; an older folder of that
/// name stays in place until then and is removed afterwards. Not collective: one rank calls it.
void write_diffusers_model(base::FileSystem& files, const base::Path& directory, const WrittenModel& model);

/// Writes a safetensors file with the weights in `dtype`, as rounded_weight() has them, and syncs it; those that are
/// named `constants` are stored as float32.
void write_weights(base::FileSystem& files, const base::Path& path, std::span<const NamedTensor> weights,
                   at::ScalarType dtype = at::kFloat, const std::set<std::string>& constants = {});

/// Has `write` fill a folder under a temporary sibling name and renames that to `directory`, as write_diffusers_model()
/// does. Not collective.
void publish_folder(base::FileSystem& files, const base::Path& directory,
                    const std::function<void(const base::Path& folder)>& write);

/// Whether the network is told whole timesteps, and not noise levels or times between them.
bool takes_whole_timesteps(const nn::UNet2DConfig& unet, diffusion::Formulation formulation);

/// The weight in `dtype`, row-major on the host. Throws base::OutputError where float16 cannot hold one of its values.
at::Tensor rounded_weight(const std::string& name, const at::Tensor& weight, at::ScalarType dtype);
/// That of a model: constants are float32 whatever the type, since the phases that follow from random frequencies are
/// many turns.
at::Tensor rounded_weight(const nn::Parameter& parameter, at::ScalarType dtype);

/// The text of export.py, which makes a torch.export program of the model: PyTorch keeps such programs where it gives
/// up TorchScript, and only Python makes them. "" for a model without a sample_size, whose images have no size.
std::string export_script(const WrittenModel& model);

}  // namespace ddpm::interop
