// What follows from validation losses of any source: the best checkpoint, and early stopping.
#pragma once

#include <string>

#include "base/log.h"
#include "checkpoint/store.h"
#include "comm/communicator.h"
#include "train/callback.h"
#include "train/validation_record.h"

namespace ddpm::train {

/// Counts the losses, and remembers them from checkpoint to checkpoint. It comes after the callback that measures them.
class ValidationHistory final : public Callback {
 public:
  /// `set` says which images the losses are of, and is empty when this run does not validate: what was remembered is
  /// kept then. Everything outlives this object.
  ValidationHistory(std::string set, double min_delta, const base::FileSystem& files,
                    const checkpoint::CheckpointStore& store, comm::Communicator& world, const base::Logger& log);

  /// Restores what is still valid: nothing from another run's checkpoint or for another validation set, and not the
  /// best step when its checkpoint is no longer in the run's own store (it was removed, or a better one took its place
  /// before the run was resumed from an older one).
  void resume(const checkpoint::Checkpoint& checkpoint) override;
  [[nodiscard]] bool due(const FinishedStep& step) const override { return step.validated.has_value(); }
  void run(FinishedStep& step) override;
  void write(checkpoint::SaveRequest& request) override;

  [[nodiscard]] const ValidationRecord& record() const { return record_; }

 private:
  [[nodiscard]] bool holds_best(const base::Path& folder) const;

  std::string set_;
  double min_delta_;
  const base::FileSystem& files_;
  const checkpoint::CheckpointStore& store_;
  comm::Communicator& world_;
  const base::Logger& log_;
  ValidationRecord record_;
};

/// Has a state saved whose loss is the lowest so far, and its checkpoint kept.
class BestCheckpoint final : public Callback {
 public:
  explicit BestCheckpoint(const ValidationHistory& history) : history_(history) {}

  [[nodiscard]] bool due(const FinishedStep& step) const override { return step.validated.has_value(); }
  void run(FinishedStep& step) override;
  [[nodiscard]] std::set<int64_t> pinned() const override;

 private:
  const ValidationHistory& history_;
};

/// Ends a run whose loss no longer falls.
class EarlyStopping final : public Callback {
 public:
  /// `patience` is the number of validations in a row without an improvement; 0: any number.
  EarlyStopping(const ValidationHistory& history, int64_t patience) : history_(history), patience_(patience) {}

  [[nodiscard]] bool ends_run() const override { return history_.record().out_of_patience(patience_); }

 private:
  const ValidationHistory& history_;
  int64_t patience_;
};

}  // namespace ddpm::train
