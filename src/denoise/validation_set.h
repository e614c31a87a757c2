// The validation set, and the loss of each of its images, computed on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/progress_report.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "denoise/loaded_model.h"
#include "denoise/model_inputs.h"
#include "denoise/patch.h"
#include "denoise/tile_pair.h"
#include "diffusion/formulation.h"
#include "layout/dealt_batches.h"
#include "layout/mesh.h"
#include "layout/tiling.h"
#include "nn/unet2d.h"
#include "nn/unit_executor.h"

namespace ddpm::denoise {

struct ValidationSetOptions {
  int64_t images = 0;  ///< how many of the first ones are used; 0: all
  int64_t batch = 1;   ///< images per rank and forward pass
  uint64_t seed = 0;
  diffusion::DiffusionConfig diffusion = {};
  bool positions = false;  ///< the model is given where each pixel lies
  Patch patch = {};        ///< windows as in training: one of each image is validated on
  at::Device device = at::kCPU;
  layout::Mesh mesh = {};  ///< the ranks of the communicator
  layout::Tiling tiling =
      {};  ///< how images, or their windows, are cut into tiles; where they are, use_tiles() is called
};

/// The losses of a set's images.
struct ImageLosses {
  std::vector<double> each;  ///< by the image's position in the set
  int64_t blank = 0;         ///< images without a valid pixel, whose loss is 0

  /// The mean over all images, summed in order.
  [[nodiscard]] double mean() const;
  /// The mean over the images that have a valid pixel; not a number where none has one.
  [[nodiscard]] double mean_of_valid() const;
};

class ValidationSet {
 public:
  /// `world` outlives this object.
  ValidationSet(data::Dataset dataset, const ValidationSetOptions& options, comm::Communicator& world);

  /// The tiles of ValidationSetOptions::tiling.
  void use_tiles(const TilePair& tiles) { tiles_ = tiles; }
  /// From now on the losses are those of what `mean` leaves of the images (see mean_model.h), where it is not null.
  void subtract(std::shared_ptr<const LoadedModel> mean) { mean_ = std::move(mean); }

  /// Images that are validated on.
  [[nodiscard]] int64_t size() const { return batches_.count; }
  /// Identifies the images: losses under one name can be compared.
  [[nodiscard]] std::string name() const;

  /// The denoising loss of each image of the set, size() in all, on every rank: the loss of training without
  /// flips and dropout, its timesteps, noise and windows a function of seed and position. A batch holds the same images
  /// on any number of ranks, so the losses have the same bits if the weights and `executor`'s threads are the same.
  /// Collective; every rank runs the same number of forward passes, since ZeRO-3 gathers in each, and a rank that has
  /// no image left repeats the first ones and discards the result. Throws AgreedError with DatasetError's code for a
  /// damaged image.
  /// `progress` is called on all ranks after each of the passes, and may throw on all of them.
  [[nodiscard]] ImageLosses losses(const nn::UNet2D& unet, nn::UnitExecutor& executor,
                                   const base::ProgressReport& progress = {}) const;

  /// The losses() of each channel of each image at each of `levels` noise levels (diffusion/formulation.h: GridLevel),
  /// float64 [size(), levels, channels]. Collective.
  [[nodiscard]] at::Tensor grid_losses(const nn::UNet2D& unet, nn::UnitExecutor& executor, int64_t levels,
                                       const base::ProgressReport& progress = {}) const;

  /// Collective.
  void close() { dataset_.close(world_); }

 private:
  /// What images in a batch, those at `positions` of the set, have to say: float64 [n, width].
  using Measure = std::function<at::Tensor(const ModelBatch& images, layout::Range positions)>;
  [[nodiscard]] std::vector<double> of_each_image(int64_t width, const Measure& measure,
                                                  const base::ProgressReport& progress) const;
  [[nodiscard]] data::MicroBatch read(layout::Range range) const;

  data::Dataset dataset_;
  ValidationSetOptions options_;
  comm::Communicator& world_;
  diffusion::ForwardProcess process_;
  Windows windows_;
  std::optional<data::ImageWindows> read_;  // in place of whole images
  ModelInputs inputs_;
  layout::DealtBatches batches_;
  std::shared_ptr<const LoadedModel> mean_;
  TilePair tiles_;
};

/// Images that a model was trained on, as far as others must be like them.
struct TrainedImages {
  const data::DatasetInfo& info;
  std::string path;                       ///< for messages, as the next one
  std::string asked = "data.validation";  ///< what names the other images
  bool labelled = true;                   ///< labels were read
  bool named = true;                      ///< the names and units of variables are known
};

/// Makes a validation set of `dataset`. Throws DatasetError's code on all ranks when its images are not like those of
/// `trained`, which `model` fits: size, type, normalization, labels and the names of their classes must agree, and so
/// must all fields that are given with images. They get the transforms of `trained`. Collective.
ValidationSet make_validation_set(data::Dataset dataset, const ValidationSetOptions& options,
                                  const TrainedImages& trained, const nn::UNet2DConfig& model,
                                  comm::Communicator& world);

}  // namespace ddpm::denoise
