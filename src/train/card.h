// What a model card tells of a run's model: the same for RUN/model, RUN/model-best and every export of a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/json.h"
#include "engine/progress.h"
#include "interop/model_card.h"
#include "run/weight_choice.h"
#include "train/config.h"
#include "train/data_history.h"
#include "train/training_facts.h"
#include "train/validation_record.h"

namespace ddpm::train {

/// What a run knows at one of its steps, beside its configuration.
struct CardFacts {
  std::vector<DataPeriod> history;
  engine::Progress progress;
  ValidationRecord validated;
  TrainingFacts training;
  std::vector<std::string> class_names;
};

/// The facts as a checkpoint of `step` remembers them; those that an earlier version has not written are empty. Throws
/// OutputError, which begins with `origin`, for a damaged state.
CardFacts read_card_facts(const base::Json& state, int64_t step, const std::string& origin);

/// The card of these weights of the run in the folder `run`. A validation loss is told of the weights that were
/// validated alone, and at the step where that was.
interop::ModelCard card_of(const Configuration& configuration, const base::Path& run, const CardFacts& facts,
                           const run::WeightChoice& weights);

}  // namespace ddpm::train
