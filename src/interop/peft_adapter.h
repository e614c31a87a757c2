// Writes adapters as the folder that Hugging Face's PEFT loads beside the model that they were trained on:
//
//   adapter_config.json  adapter_model.safetensors  README.md (its card)
//
// Errors: base::OutputError (exit code 4).
#pragma once

#include "base/file_system.h"
#include "interop/written_model.h"

namespace ddpm::interop {

/// Replaces an older folder of that name as write_diffusers_model() does. Not collective: one rank calls it.
void write_peft_adapter(base::FileSystem& files, const base::Path& directory, const WrittenAdapter& adapter);

}  // namespace ddpm::interop
