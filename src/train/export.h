// RUN/model: the trained model in diffusers' folder layout.
#pragma once

#include "base/file_system.h"
#include "denoise/adapter_base.h"
#include "train/card.h"
#include "train/task.h"
#include "train/unet_state.h"

namespace ddpm::train {

/// Writes the first average, or the raw weights if there is none, with a model card of `facts` that says which.
/// Adapters are merged into the weights that they were trained beside, `adapter_base`, and before also written alone,
/// for PEFT, into the folder adapter/ beside `directory`. Rank 0 writes; collective, all ranks agree on success.
void export_model(const UNetState& model, const denoise::AdapterBase* adapter_base, const Task& task,
                  const Configuration& configuration, const CardFacts& facts, const run::Runtime& runtime,
                  const base::Path& directory);

}  // namespace ddpm::train
