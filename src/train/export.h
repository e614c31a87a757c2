// RUN/model: the trained model in diffusers' folder layout.
#pragma once

#include "base/file_system.h"
#include "train/task.h"
#include "train/unet_state.h"
#include "train/validation_record.h"

namespace ddpm::train {

/// Writes the first average, or the raw weights if there is none, with a model card that says which, and the
/// loss of these weights if `validated` remembers it. Rank 0 writes; collective, all ranks agree on success.
void export_model(const UNetState& model, const Task& task, const Configuration& configuration,
                  const ValidationRecord& validated, const run::Runtime& runtime, const base::Path& directory);

}  // namespace ddpm::train
