// Loads a model, from wherever it lies.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "denoise/loaded_model.h"
#include "diffusion/config.h"
#include "run/runtime.h"

namespace ddpm::denoise {

/// What a run's configuration says of its model.
struct RunModel {
  nn::UNet2DConfig unet;
  diffusion::SchedulerConfig scheduler;
  double class_dropout = 0.0;
  double condition_dropout = 0.0;
  std::size_t averages = 0;  ///< of the weights, in each checkpoint
  bool has_mean = false;     ///< it was trained with diffusion.mean_model
};
/// Reads RUN/config.toml. Throws OutputError.
using ReadRunModel = std::function<RunModel(const base::Path& file)>;

/// `path` is a run folder (its newest readable checkpoint), a checkpoint folder, a diffusers pipeline folder or its
/// unet/, relative or absolute. `weights`: raw, ema, ema:I, or "" for the first average where there is one; a diffusers
/// folder has one set of weights and takes "" only. `read_run` reads the configuration of a run. A regression that the
/// model was trained with is loaded with it. A rank whose `device` is the meta device has the model without its
/// weights. Collective. Throws OutputError (exit code 4) when it cannot be read.
LoadedModel load_model(const base::Path& path, const std::string& weights, const ReadRunModel& read_run,
                       const run::Runtime& runtime, at::Device device);

}  // namespace ddpm::denoise
