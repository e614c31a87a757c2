#include "train/fitted_model.h"

#include "denoise/model_fit.h"
#include "denoise/null_class.h"
#include "denoise/turns.h"

namespace ddpm::train {

FittedModel fitted_model(const Config& config, const data::Dataset& dataset) {
  const auto patch = denoise::Patch::of(dataset.image(), config.data.patch, config.model);
  const FittedModel fitted = {.unet = denoise::fit_model(config.model, dataset, config.data.positions, patch),
                              .patch = patch};
  denoise::expect_turnable(config.data, dataset.info(), patch.window);
  if (config.diffusion.class_dropout > 0.0) denoise::expect_room_for_null_class(fitted.unet, dataset);
  return fitted;
}

}  // namespace ddpm::train
