// The model that a configuration trains, as it fits the images of its data set, for commands that do not train it.
#pragma once

#include "cli/context.h"
#include "data/format.h"
#include "nn/config.h"
#include "plan/plan_request.h"
#include "train/config.h"

namespace ddpm::cli {

struct Subject {
  nn::UNet2DConfig model;
  data::ImageFormat image;
  plan::StoredSizes stored = {};
};

/// Looks into the data set; where there is none yet, images are taken to be as model.sample_size says, and the log
/// tells so. Collective. Throws what opening the set throws, and DatasetError or ConfigError without a set and a size.
Subject find_subject(const train::Config& config, const Context& context);

}  // namespace ddpm::cli
