// The callbacks of `ddpm train` that follow from the losses of its validation set. Callbacks that may end a run are
// among them, so a dry run makes them, too.
#pragma once

#include <array>
#include <string>

#include "train/config.h"
#include "train/validation_history.h"

namespace ddpm::train {

class AfterValidation {
 public:
  /// `set` is the name of the validation set, or empty: see ValidationHistory. Everything outlives this object.
  AfterValidation(const EarlyStoppingConfig& config, const std::string& set, const base::FileSystem& files,
                  const checkpoint::CheckpointStore& store, comm::Communicator& world, const base::Logger& log)
      : history_(set, config.min_delta, files, store, world, log),
        best_checkpoint_(history_),
        early_stopping_(history_, config.patience) {}
  AfterValidation(const AfterValidation&) = delete;
  AfterValidation& operator=(const AfterValidation&) = delete;

  /// All of them, in the order in which they are called.
  [[nodiscard]] std::array<Callback*, 3> callbacks() { return {&history_, &best_checkpoint_, &early_stopping_}; }
  [[nodiscard]] const ValidationRecord& record() const { return history_.record(); }

 private:
  ValidationHistory history_;
  BestCheckpoint best_checkpoint_;
  EarlyStopping early_stopping_;
};

}  // namespace ddpm::train
