// What the model card of a run's finished model tells.
#pragma once

#include <vector>

#include "engine/progress.h"
#include "interop/model_card.h"
#include "run/runtime.h"
#include "run/snapshot.h"
#include "train/task.h"
#include "train/validation_record.h"

namespace ddpm::train {

/// What a run's configuration and checkpoints tell of these of its weights, as they are at `progress`. The names of
/// classes are the caller's.
interop::ModelCard card_of_run(const Configuration& configuration, const std::vector<DataPeriod>& history,
                               const engine::Progress& progress, const run::WeightChoice& weights);

/// The same with what the run itself knows: the training set's statistics and classes, the hardware of all ranks, and
/// the validation loss where `validated` remembers that of this step. Collective, for the number of hosts.
interop::ModelCard make_card(const Task& task, const Configuration& configuration, const engine::Progress& progress,
                             const run::WeightChoice& weights, const ValidationRecord& validated,
                             const run::Runtime& runtime);

}  // namespace ddpm::train
