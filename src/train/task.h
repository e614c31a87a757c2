// Everything about a run that is decided before its first step, and refused when it cannot be.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/order.h"
#include "denoise/augmentation.h"
#include "denoise/image_values.h"
#include "denoise/loaded_model.h"
#include "denoise/windows.h"
#include "run/placement.h"
#include "run/runtime.h"
#include "train/config.h"
#include "train/data_history.h"
#include "train/fitted_model.h"

namespace ddpm::train {

/// Settles what the training set decides: its transforms, from its values or as the run that is resumed has recorded
/// them, and diffusion.clip_sample in `configuration` where nobody set it, as the images want it. Returns the
/// regression of diffusion.mean_model, on `device`; null: none. Throws DatasetError's code for a set without valid
/// pixels. Collective.
std::shared_ptr<const denoise::LoadedModel> settle_set(Configuration& configuration, data::Dataset& dataset,
                                                       const FittedModel& fitted, at::Device device,
                                                       const run::Runtime& runtime);
/// Warns of what is likely a mistake about the training set. `values`: as the model sees them.
void warn_of_set(const Config& config, const data::Dataset& dataset, const std::optional<denoise::ImageValues>& values,
                 const base::Logger& log);

struct Task {
  const Config& config;
  std::vector<data::Dataset::Source> sources;  ///< of `dataset`: with data.stage, the copies
  data::Dataset dataset;
  data::ImageOrder order;
  run::Placement place;
  int64_t total_steps;
  FittedModel fitted;
  /// diffusion.mean_model, in the run's folder from its first start on; null: none.
  std::shared_ptr<const denoise::LoadedModel> mean;
  /// The sets that the run has been trained on; the last one is `dataset`.
  std::vector<DataPeriod> history = {};

  /// What a model trained on the set remembers of its images.
  [[nodiscard]] denoise::ImageRecord image_record() const;
  /// How images are changed before the model sees them.
  [[nodiscard]] denoise::Augmentation augmentation() const;
  /// Where the windows of data.patch lie, and what data.periodic_shift moves; of tiles this rank's.
  [[nodiscard]] denoise::Windows windows() const;
  /// What is read in place of whole images.
  [[nodiscard]] std::optional<data::ImageWindows> windows_to_read() const;
  /// The options of this rank's loader, for steps from `first_step` on.
  [[nodiscard]] data::BatchLoaderOptions loading(int64_t first_step, int64_t end_step) const;
  /// The whole of a run that is trained on the set alone.
  [[nodiscard]] DataPeriod period() const;
  /// Collective; writes nothing, and settles diffusion.clip_sample in `configuration`. Throws ConfigError for a batch
  /// that does not divide, and DatasetError for a set that is unreadable or does not fit the model (exit codes 2 and
  /// 3), on all ranks.
  static Task make(Configuration& configuration, const run::Runtime& runtime);
};

}  // namespace ddpm::train
