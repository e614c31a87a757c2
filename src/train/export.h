// RUN/model: the trained model in diffusers' folder layout.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/file_system.h"
#include "interop/diffusers_writer.h"
#include "train/task.h"
#include "train/unet_state.h"

namespace ddpm::train {

/// What a run knows of its model after so many steps, for average `average` of its weights, or the raw ones. The names
/// of classes are the caller's.
interop::ModelCard card_of_run(const Configuration& configuration, const std::vector<DataPeriod>& history,
                               const engine::Progress& progress, std::optional<std::size_t> average);

/// Writes the first average, or the raw weights if there is none, with a model card that says which. Rank 0 writes;
/// collective, all ranks agree on success.
void export_model(const UNetState& model, const Task& task, const Configuration& configuration,
                  const run::Runtime& runtime, const base::Path& directory);

}  // namespace ddpm::train
