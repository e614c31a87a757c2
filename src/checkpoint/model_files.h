// Names in the folder of a diffusers pipeline, which a run's finished model is.
#pragma once

namespace ddpm::checkpoint {

/// Written last: a folder with it is a whole model.
inline constexpr const char* kModelIndexName = "model_index.json";
inline constexpr const char* kUNetFolder = "unet";
/// Averages of the weights, as programs of others leave them beside the unet.
inline constexpr const char* kAveragesFolder = "unet_ema";
inline constexpr const char* kUNetConfigName = "config.json";
inline constexpr const char* kSchedulerFolder = "scheduler";
inline constexpr const char* kSchedulerConfigName = "scheduler_config.json";

}  // namespace ddpm::checkpoint
