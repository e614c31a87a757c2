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

#include "base/file_system.h"
#include "interop/written_model.h"

namespace ddpm::interop {

/// Writes the folder under a temporary sibling name, syncs it, and renames it to `directory`; an older folder of that
/// name stays in place until then and is removed afterwards. Not collective: one rank calls it.
void write_diffusers_model(base::FileSystem& files, const base::Path& directory, const WrittenModel& model);

}  // namespace ddpm::interop
