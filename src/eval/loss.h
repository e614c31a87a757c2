// `ddpm eval loss`: the loss of a model on images, on a fixed grid of noise levels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "base/file_system.h"
#include "base/progress_report.h"
#include "data/dataset_options.h"
#include "denoise/load_model.h"
#include "diffusion/config.h"
#include "eval/result.h"
#include "run/runtime.h"

namespace ddpm::eval {

/// A model, and what its loss is: that of training for a run; of another folder that of its scheduler, without weights.
struct LossModel {
  std::string path;  ///< as it was given
  denoise::LoadedModel model;
  diffusion::DiffusionConfig diffusion = {};
  std::vector<int64_t> patch = {};                             ///< data.patch
  std::optional<data::DatasetOptions> reading = std::nullopt;  ///< how training read the data, where that is known
};

/// Loads the model in `path`, which is what `ddpm sample --model` takes, as denoise::load_model() does. Throws
/// OutputError's code. Collective.
LossModel load_loss_model(const base::Path& path, const std::string& weights, const run::Runtime& runtime,
                          at::Device device, const denoise::LoadOptions& options = {});

/// Throws ConfigError unless the losses of both are of the same things: formulation, prediction, schedule, weights,
/// noise, windows, and what the models see of a value.
/// `option` has named b.
void expect_same_loss(const LossModel& a, const LossModel& b, const char* option);

struct LossOptions {
  base::Path data;
  std::optional<data::DatasetOptions> reading = std::nullopt;  ///< none: as the model's run reads
  int64_t count = 0;                                           ///< the first so many images; 0: all
  int64_t levels = 8;
  int64_t batch = 16;  ///< images per rank and forward pass
  uint64_t seed = 0;
  at::Device device = at::kCPU;
};

/// The images and their variables.
struct LossTable {
  at::Tensor losses;  ///< float64 [images, levels, channels], on every rank
  std::vector<std::string> variables;
  bool masked = false;      ///< pixels that a mask of the data leaves out do not count
  std::string images = {};  ///< in words, which images of the data they are of, and by which mask
};
/// Measures the losses of the images. The noise is a function of seed, image and level, whatever the model is. A model
/// that learned masks takes those of the data: of a bare file that of the same name, whatever else says how it is read.
/// Where there are none, a warning says so. Throws DatasetError's code for a set that does not fit the model.
/// Collective.
LossTable measure_losses(const LossModel& model, const LossOptions& options, const run::Runtime& runtime,
                         const base::ProgressReport& progress = {});

/// Models that are one to the result, such as one of each seed, and the losses of each.
struct LossSide {
  std::vector<LossModel> models = {};
  std::vector<LossTable> losses = {};
};
/// What becomes of the losses of A, which B, where it has models, is compared with on the same images and noise. Errors
/// are over images, and over models where there are several. Throws NumericsError for losses that are not finite, which
/// are named, and ConfigError where models were shown other images, or a mask leaves out pixels of some models only.
Result loss_result(const LossSide& a, const LossSide& b, const LossOptions& options);

}  // namespace ddpm::eval
