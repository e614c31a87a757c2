// Everything about a run that is decided before its first step, and refused when it cannot be.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "data/order.h"
#include "nn/config.h"
#include "run/placement.h"
#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::train {

struct Task {
  const Config& config;
  data::Dataset dataset;
  data::ImageOrder order;
  run::Placement place;
  int64_t total_steps;
  nn::UNet2DConfig model;  ///< sample_size is the dataset's

  /// Collective; writes nothing, and settles diffusion.clip_sample in `configuration`. Throws ConfigError for a batch
  /// that does not divide, and DatasetError for a set that is unreadable or does not fit the model (exit codes 2 and
  /// 3), on all ranks.
  static Task make(Configuration& configuration, const run::Runtime& runtime);
};

}  // namespace ddpm::train
