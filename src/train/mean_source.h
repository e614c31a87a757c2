// Where the regression of diffusion.mean_model is read from, and where it is kept.
#pragma once

#include <functional>
#include <memory>

#include "data/dataset.h"
#include "denoise/load_model.h"
#include "interop/diffusers_writer.h"
#include "run/runtime.h"
#include "train/config.h"
#include "train/fitted_model.h"

namespace ddpm::train {

/// The regression that diffusion.mean_model names, on every rank; null where the key is not set. A run that has begun
/// has a copy in its folder, so that the original may change or go. It must take the fields of `dataset` as `model`
/// does: throws OutputError otherwise. Collective.
std::shared_ptr<const denoise::LoadedModel> open_mean_model(const Config& config, const data::Dataset& dataset,
                                                            const FittedModel& model, const run::Runtime& runtime,
                                                            at::Device device);

/// Calls `use` with the regression as the parts of a folder. Not collective.
void with_parts(const denoise::LoadedModel& regression, const std::function<void(const interop::WrittenModel&)>& use);

/// Puts the copy into the run's folder, unless it is there. Collective.
void keep_mean_model(const denoise::LoadedModel& regression, const base::Path& run, const run::Runtime& runtime);

}  // namespace ddpm::train
