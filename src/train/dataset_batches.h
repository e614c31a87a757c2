// The micro-batches of a data set for a model of one's own: read ahead by a thread, in training's order, on the device
// that computes.
#pragma once

#include <cstdint>
#include <optional>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/order.h"
#include "denoise/augmentation.h"
#include "denoise/batch.h"
#include "denoise/batch_stager.h"
#include "denoise/model_inputs.h"
#include "train/model_trainer.h"

namespace ddpm::train {

struct DatasetBatchesOptions {
  data::ImageOrderOptions order = {};
  int64_t prefetch = 2;                                              ///< micro-batches read ahead, at least
  std::optional<denoise::Augmentation> augmentation = std::nullopt;  ///< none: images as they are
};

/// Which image stands at which position of which step is a function of run.seed and the set (data/order.h), so training
/// is the same on any number of ranks, and a resumed run continues with the images that come next. Several sets have
/// orders that are alike (data::SetOrders), since checkpoints of a model of one's own do not say which they had.
class DatasetBatches {
 public:
  /// Trainer and dataset outlive this object. Nothing is read before the first next(), and nothing is collective.
  DatasetBatches(ModelTrainer& trainer, const data::Dataset& dataset, const DatasetBatchesOptions& options = {});

  /// The micro-batch of `position`, for the loss function, which asks for each of its positions once and in turn:
  /// images float32 [n, C, H, W], channels-last in memory, by the set's transforms (of uint8 in [-1, 1]); class labels,
  /// parameters and further fields where the set has them. It is good until the next call. Throws DatasetError for an
  /// image that is damaged.
  [[nodiscard]] denoise::ModelBatch next(const MicroBatchPosition& position);

 private:
  ModelTrainer& trainer_;
  const data::Dataset& dataset_;
  DatasetBatchesOptions options_;
  data::ImageOrder order_;
  denoise::ModelInputs inputs_;
  denoise::BatchFeeder feeder_;
  std::optional<data::BatchLoader> loader_;
};

}  // namespace ddpm::train
