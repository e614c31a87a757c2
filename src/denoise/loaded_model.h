// A model to sample from or evaluate, from wherever it lies.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "base/file_system.h"
#include "base/json.h"
#include "denoise/image_record.h"
#include "diffusion/config.h"
#include "nn/unet2d.h"
#include "run/weight_choice.h"

namespace ddpm::denoise {

/// The checkpoint that a model is from.
struct CheckpointOrigin {
  base::Path run;
  base::Path manifest;  ///< the file, for messages
  int64_t step = 0;
  base::Json state;           ///< the scalars of its manifest
  run::WeightChoice weights;  ///< which these are
};

/// Adapters that are merged into a model, as they were trained.
struct LoadedAdapters {
  std::unique_ptr<nn::UNet2D> unet;                         ///< a model with such adapters, bound to nothing
  std::vector<std::pair<std::string, at::Tensor>> weights;  ///< by their names, float32 on the CPU
  std::string base;                                         ///< the path of the model beside which they were trained
};

struct LoadedModel {
  std::shared_ptr<nn::UNet2D> unet;         ///< bound to weights of type `dtype`
  at::ScalarType dtype = at::kFloat;        ///< in which it computes
  ImageRecord image;                        ///< the images it was trained on
  base::Json scheduler;                     ///< keys of a scheduler_config.json
  std::string scheduler_origin;             ///< the file that they are from
  std::optional<double> class_dropout;      ///< how often training dropped the class, where that is known
  std::optional<double> condition_dropout;  ///< how often it dropped the condition, likewise
  std::optional<CheckpointOrigin> checkpoint = std::nullopt;  ///< none: a diffusers folder
  std::optional<LoadedAdapters> adapters = std::nullopt;      ///< none: it was trained whole
  bool averages = false;    ///< the weights are those in unet_ema/ of a diffusers folder
  std::string description;  ///< "step 1000, ema:0 weights" or "diffusers folder"
  bool allow_tf32 = true;   ///< whether a GPU may round its products to TF32: as its run says, or training's default
  /// What its samples are added to: see mean_model.h. Null: nothing.
  std::shared_ptr<const LoadedModel> mean = nullptr;
};

/// Has the model, whose weights no longer change, compute in `dtype`, which they are rounded to but for constants, and
/// makes ready what nn::UNet2D::prepare_for_inference() computes from them.
void prepare_for_sampling(LoadedModel& model, at::ScalarType dtype);

/// Says in the normalization of a model folder, or in a checkpoint's state, which regression samples are added to,
/// where there is one. The second function throws OutputError, which names `origin`, where that is not `mean`: it was
/// changed.
void write_mean(const LoadedModel* mean, base::Json& record);
void expect_mean(const base::Json& record, const LoadedModel* mean, const std::string& origin);

/// Writes what training left out now and then, of what the model takes, beside the normalization that a model folder
/// holds: guidance leaves it out, too. The second function reads it, and throws OutputError that names `origin`.
void write_dropouts(const nn::UNet2DConfig& unet, const ImageRecord& image, const diffusion::DiffusionConfig& config,
                    base::Json& normalization);
void read_dropouts(const base::Json& normalization, const std::string& origin, LoadedModel& model);
/// How often training dropped the class, where the normalization says so. Throws as read_dropouts().
std::optional<double> class_dropout_in(const base::Json& normalization, const std::string& origin);

/// SHA-256 over names, types and values of all weights, those of `mean` included.
std::string digest_of_weights(const LoadedModel& model);

}  // namespace ddpm::denoise
