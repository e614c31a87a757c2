#include "train/fitted_model.h"

#include "denoise/model_fit.h"

namespace ddpm::train {

FittedModel fitted_model(const Config& config, const data::Dataset& dataset) {
  const auto patch = denoise::Patch::of(dataset.image(), config.data.patch, config.model);
  return {.unet = denoise::fit_model(config.model, dataset, config.data.positions, patch), .patch = patch};
}

}  // namespace ddpm::train
