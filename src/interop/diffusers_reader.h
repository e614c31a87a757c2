// Reads a model folder in diffusers' layout, written by any program. Files are untrusted: strict types, no pickle.
//
// A model folder is a pipeline folder (with unet/ and scheduler/) or its unet/. Every function takes either.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/json.h"
#include "interop/unet_weights.h"

namespace ddpm::nn {
struct UNet2DConfig;
}

namespace ddpm::interop {

/// The file of a pipeline that says how its images follow from what its model sees.
inline constexpr const char* kNormalizationName = "normalization.json";

/// Whether `path` looks like a model folder: it, or its unet/, holds config.json.
bool is_model_folder(const base::Path& path);

/// The end of a refusal of `path`, a model or adapters that are not there: for a name such as
/// "google/ddpm-cifar10-32", which other programs look up on a hub, the command that fetches it; "" for other paths.
std::string hub_hint(const base::Path& path);

/// The model that a `config.json` describes (the file, or a model folder), checked by nn::validate. Throws
/// base::ConfigError (exit code 2) with path and key: for the configuration key `model.config`.
nn::UNet2DConfig read_unet_config(const base::Path& path);
/// Reads the configuration of a model folder whose weights will be read too. Throws base::OutputError (exit code 4),
/// also for a pipeline whose unet draws latents, which another of its models makes images of.
nn::UNet2DConfig read_model_config(const base::Path& folder);

/// The folder of a pipeline: `path`, or where `path` is its unet/ or unet_ema/ the folder around that.
base::Path pipeline_folder(const base::Path& path);

/// What scheduler/scheduler_config.json says, whichever class wrote it.
struct SchedulerFile {
  base::Path path;              ///< where it was found, for messages
  std::string class_name = {};  ///< "DDPMScheduler", "DDIMScheduler" ...
  std::string text = {};        ///< the file, byte by byte
  base::Json json;              ///< all keys as they are; diffusion::read_scheduler reads those of a sampler
};
/// Returns nothing when the folder has no scheduler (a bare unet/ folder). Python's -Infinity, Infinity and NaN are
/// read as texts of these names. Throws base::OutputError.
std::optional<SchedulerFile> read_scheduler(const base::Path& folder);

/// The folder's class_names.json: the names of classes 0, 1, ...; empty when it has none. Throws base::OutputError.
std::vector<std::string> read_class_names(const base::Path& folder);

/// The folder's normalization.json, or none (a model that ddpm did not write). Throws base::OutputError.
std::optional<base::Json> read_normalization(const base::Path& folder);

}  // namespace ddpm::interop
