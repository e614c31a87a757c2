// A model to sample from or evaluate, from wherever it lies.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "denoise/image_record.h"
#include "diffusion/config.h"
#include "nn/unet2d.h"
#include "run/runtime.h"

namespace ddpm::denoise {

struct LoadedModel {
  std::unique_ptr<nn::UNet2D> unet;  ///< bound to float32 weights
  ImageRecord image;                 ///< what it was trained on
  base::Json scheduler;              ///< keys of a scheduler_config.json
  std::string scheduler_origin;      ///< the file that they are from
  std::string description;           ///< "step 1000, ema:0 weights" or "diffusers folder"
};

/// What a run's configuration says of its model.
struct RunModel {
  nn::UNet2DConfig unet;
  diffusion::SchedulerConfig scheduler;
  std::size_t averages = 0;  ///< of the weights, in each checkpoint
};
/// Reads RUN/config.toml. Throws OutputError.
using ReadRunModel = std::function<RunModel(const base::Path& file)>;

/// `path` is a run folder (its newest readable checkpoint), a checkpoint folder, a diffusers pipeline folder or its
/// unet/, relative or absolute. `weights`: raw, ema, ema:I, or "" for the first average where there is one; a diffusers
/// folder has one set of weights and takes "" only. `read_run` reads the configuration of a run. Collective. Throws
/// OutputError (exit code 4) when it cannot be read.
LoadedModel load_model(const base::Path& path, const std::string& weights, const ReadRunModel& read_run,
                       const run::Runtime& runtime, at::Device device);

}  // namespace ddpm::denoise
