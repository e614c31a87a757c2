// What a run does beside its steps: validating, keeping the best checkpoint, stopping early, logging, saving.
//
// The driver (train/driver.h) calls, after each step, those that are due, in the order in which they were added; those
// that come later see what earlier ones have noted. All of it happens on all ranks alike, so a callback may make
// collective calls wherever it does work.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "engine/step_clock.h"
#include "observe/event_messages.h"
#include "observe/metrics.h"

namespace ddpm::train {

/// What is known of one optimizer step, the same on every rank but for `own_times`. The step itself tells its loss and
/// the quartiles (by the timesteps, of edm by the distribution of ln σ, and of flow by t), the norm of its gradient,
/// which is infinite when the step was skipped, its learning rate and its loss scale. Callbacks add what they measure.
/// The other members have their defaults: Logging finds counts, speeds and memory for the steps that it writes.
struct StepResult : observe::StepMetrics {
  engine::StepTimes times = {};      ///< times of the slowest rank; 0 where nobody measured
  engine::StepTimes own_times = {};  ///< times of this rank
};

/// The loss on images that are not trained on.
struct Validated {
  double loss = 0.0;  ///< mean over the images; NaN or infinite when that of an image is
  std::string how;    ///< for the message: "64 images in 0.3 s"
};

/// A step that has ended, as the callbacks see it one after the other.
struct FinishedStep {
  int64_t step = 0;                         ///< the first is 1
  bool last = false;                        ///< no step follows: all are done, or a callback has ended the run
  bool stopping = false;                    ///< the run was asked to stop, and has no time for long work
  StepResult result = {};                   ///< what the step told, and earlier callbacks have added
  std::optional<Validated> validated = {};  ///< set by the callback that measured it
  /// Pictures were drawn after this step, and are noted on rank 0.
  bool drawn = false;
  std::vector<observe::Picture> pictures = {};
  bool best = false;  ///< set when the state is worth a checkpoint of its own

  /// Whether long work is due that is done every so many steps, and at the end.
  [[nodiscard]] bool ends_interval(int64_t steps) const { return last || (step % steps == 0 && !stopping); }
};

class Callback {
 public:
  Callback() = default;
  virtual ~Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  /// Restores what the checkpoint that training resumes from remembers.
  virtual void resume(const checkpoint::Checkpoint& /*checkpoint*/) {}
  /// Whether run() is to be called after this step. It is asked twice: before the step is waited for, when only `step`
  /// and `last` are known, and after it. The answer follows from numbers that all ranks share.
  [[nodiscard]] virtual bool due(const FinishedStep& /*step*/) const { return false; }
  /// Whether run() needs the state to be that of the step: a GPU may not be ahead with the next one. One that says no
  /// neither sets `best` nor ends the run, since what would be saved is the state of a later step.
  [[nodiscard]] virtual bool reads_state() const { return true; }
  virtual void run(FinishedStep& /*step*/) {}
  /// Adds to a checkpoint what it should remember. Files that have to be as new as the checkpoint are synced on return.
  /// Where that fails on the first attempt to save, it is called once more.
  virtual void write(checkpoint::SaveRequest& /*request*/) {}
  /// The checkpoint of `step` has become valid. Later steps may have ended since.
  virtual void saved(int64_t /*step*/) {}
  /// Returns the steps whose checkpoints retention spares.
  [[nodiscard]] virtual std::set<int64_t> pinned() const { return {}; }
  /// Whether the run ends here although steps are left. Callbacks of `ddpm train` that may say so stand in
  /// train/after_validation.h, since a dry run asks them, too.
  [[nodiscard]] virtual bool ends_run() const { return false; }
  /// Frees what needs all ranks, after the last step of this start. It is called once; whatever reads what the callback
  /// frees, such as a loader of its data, has ended before.
  virtual void close() {}
};

}  // namespace ddpm::train
