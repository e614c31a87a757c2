// Names in the folder of a diffusers pipeline, beside checkpoint::kModelIndexName.
#pragma once

namespace ddpm::interop {

inline constexpr const char* kUNetFolder = "unet";
/// Averages of the weights, as programs of others leave them beside the unet.
inline constexpr const char* kAveragesFolder = "unet_ema";
inline constexpr const char* kUNetConfigName = "config.json";
inline constexpr const char* kSchedulerFolder = "scheduler";
inline constexpr const char* kSchedulerConfigName = "scheduler_config.json";

}  // namespace ddpm::interop
