// What the model card of a run's finished model tells.
#pragma once

#include <string>

#include "engine/progress.h"
#include "interop/model_card.h"
#include "run/runtime.h"
#include "train/task.h"
#include "train/validation_record.h"

namespace ddpm::train {

/// The card of `weights` ("raw", "EMA (max_decay 0.9999)") as they are at `progress`: with the author's words, the
/// training set, the hardware of all ranks, and the validation loss where `validated` remembers that of this step.
/// Collective, for the number of hosts.
interop::ModelCard make_card(const Task& task, const Configuration& configuration, const engine::Progress& progress,
                             const std::string& weights, const ValidationRecord& validated,
                             const run::Runtime& runtime);

}  // namespace ddpm::train
