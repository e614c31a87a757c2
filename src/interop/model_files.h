// Names in the folder of a diffusers pipeline, beside checkpoint::kModelIndexName, and in that of a PEFT adapter, and
// how their JSON files are read.
#pragma once

#include <cstdint>

#include "base/file_system.h"
#include "base/json.h"

namespace ddpm::interop {

inline constexpr const char* kUNetFolder = "unet";
/// Averages of the weights, as programs of others leave them beside the unet.
inline constexpr const char* kAveragesFolder = "unet_ema";
inline constexpr const char* kUNetConfigName = "config.json";
inline constexpr const char* kWeightsName = "diffusion_pytorch_model.safetensors";
inline constexpr const char* kSchedulerFolder = "scheduler";
inline constexpr const char* kSchedulerConfigName = "scheduler_config.json";
/// The model card, which adapters have, too.
inline constexpr const char* kCardName = "README.md";
/// An array: the names of classes 0, 1, ...
inline constexpr const char* kClassNamesName = "class_names.json";
/// Makes a torch.export program of the model.
inline constexpr const char* kExportScriptName = "export.py";

/// Most bytes of a JSON file; far above any configuration or index.
inline constexpr uint64_t kMostJsonBytes = uint64_t{16} << 20U;

/// Throws base::OutputError, which begins with the path, for a file that cannot be read, is larger or is not JSON.
base::Json read_json(const base::Path& path, uint64_t most_bytes = kMostJsonBytes);

}  // namespace ddpm::interop
