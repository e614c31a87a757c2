// RUN/model: the trained model in diffusers' folder layout.
#pragma once

#include "base/file_system.h"
#include "train/model_state.h"
#include "train/setup.h"

namespace ddpm::train {

/// Writes the first average if there is one, else the raw weights, with a model card that says which. Rank 0 writes;
/// collective, all ranks agree on success.
void export_model(const ModelState& model, const Setup& setup, const Configuration& configuration,
                  const Runtime& runtime, const base::Path& directory);

}  // namespace ddpm::train
