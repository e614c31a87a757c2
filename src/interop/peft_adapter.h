// Writes adapters as the folder that Hugging Face's PEFT loads beside the model that they were trained on:
//
//   adapter_config.json  adapter_model.safetensors  README.md (its card)
//
// Errors: base::OutputError (exit code 4).
#pragma once

#include <span>
#include <string>

#include "base/file_system.h"
#include "interop/diffusers_writer.h"
#include "interop/model_card.h"
#include "nn/unet2d.h"

namespace ddpm::interop {

struct WrittenAdapter {
  const nn::UNet2D& unet;                ///< its layers have adapters
  std::span<const NamedTensor> weights;  ///< of the adapters, under the names of nn::Adapter's parameters
  std::string base;                      ///< where the model lies that they belong to
  const ModelCard& card;
  at::ScalarType dtype = at::kFloat;  ///< in which they are stored
};

/// The model that adapters belong to: its name on a hub, where the card states one, else where it lies.
const std::string& base_name(const WrittenAdapter& adapter);

/// Replaces an older folder of that name as write_diffusers_model() does. Not collective: one rank calls it.
void write_peft_adapter(base::FileSystem& files, const base::Path& directory, const WrittenAdapter& adapter);

}  // namespace ddpm::interop
