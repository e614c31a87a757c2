// Loads a model, from wherever it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "denoise/loaded_model.h"
#include "diffusion/config.h"
#include "run/post_hoc_average.h"
#include "run/runtime.h"

namespace ddpm::denoise {

/// What a run's configuration says of its model.
struct RunModel {
  nn::UNet2DConfig unet;
  diffusion::SchedulerConfig scheduler;
  double class_dropout = 0.0;
  double condition_dropout = 0.0;
  std::size_t averages = 0;                ///< how many averages of the weights each checkpoint holds
  run::PowerAverages power_averages = {};  ///< those averages from which ones of any length can be made
  bool has_mean = false;                   ///< it was trained with diffusion.mean_model
  bool allow_tf32 = true;                  ///< precision.allow_tf32
};
/// Reads RUN/config.toml. Throws OutputError.
using ReadRunModel = std::function<RunModel(const base::Path& file)>;

struct LoadOptions {
  std::string weights_option = "--weights";  ///< what chooses the weights, for messages
  std::string weights_said = {};             ///< what was given where that is not the option and the choice
  /// Where the weights lie beside which a run's adapters were trained, in place of where its checkpoint remembers them;
  /// a model without adapters has no use for it (expect_use_of_base()).
  std::optional<base::Path> adapter_base = std::nullopt;
  /// The sides of images of a diffusers folder whose config.json has no sample_size that its model takes; empty: such a
  /// folder is refused.
  std::vector<int64_t> sides = {};
  bool any_size = false;  ///< such a folder of flat images is taken without a size
};

/// `path` is a run folder (its newest readable checkpoint), a checkpoint folder, a diffusers pipeline folder or its
/// unet/, relative or absolute. `weights`: raw, ema, ema:I, length:S (run/post_hoc_average.h), or "" for the first
/// average where there is one; of a diffusers folder raw or ema (folder_weights.h), or "" where it has one of both.
/// `read_run` reads the configuration of a run. A regression that the model was trained with is loaded with it. A rank
/// whose `device` is the meta device has the model without its weights. Collective. Throws OutputError (exit code 4)
/// when it cannot be read.
LoadedModel load_model(const base::Path& path, const std::string& weights, const ReadRunModel& read_run,
                       const run::Runtime& runtime, at::Device device, const LoadOptions& options = {});

}  // namespace ddpm::denoise
