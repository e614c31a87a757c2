// Drives a run of any model from its folder to its last checkpoint: where it resumes from, what happens after each
// step, how it ends. `ddpm train` and ModelTrainer (a user's own model) put their steps into it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "engine/training_state.h"
#include "run/config.h"
#include "run/placement.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/runtime.h"
#include "run/supervision.h"
#include "train/callback.h"
#include "train/saving.h"
#include "train/usage_account.h"

namespace ddpm::train {

/// Every function that says so is collective: all ranks call it, in the same order.
class Driver {
 public:
  /// Looks at the run folder without changing it, as run::RunFolder does. `schema` holds `config`. Everything outlives
  /// this object. Collective.
  Driver(const run::CommonConfig& config, const config::Schema& schema, const run::Runtime& runtime,
         run::Supervision& supervision, int64_t total_steps);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Callbacks run in the order in which they were added, then the state is saved. They outlive the run.
  void add(Callback& callback) { callbacks_.push_back(&callback); }

  /// Names the images that the run's account tells: UsageAccount::name_sets(). Before start().
  void name_sets(std::string images, std::string validation);

  /// Returns the checkpoint to resume from, after every callback's resume(); none for a new run. Collective.
  [[nodiscard]] std::optional<checkpoint::Checkpoint> find();
  /// Loads it into `state`. Collective.
  void load(const checkpoint::Checkpoint& checkpoint, engine::TrainingState& state);
  /// Takes the run folder: nothing is written before. From now on the driver counts by state.progress, and saves
  /// `state`. `loaded` is where the state comes from; at its end the run writes so many models, for which there must be
  /// room. Collective; throws as run::start_run.
  void start(engine::TrainingState& state, const run::Placement& place,
             const std::optional<checkpoint::Checkpoint>& loaded, int64_t finished_models);

  /// Says that the run goes on from `loaded`, or begins; with what, and for which steps. After start().
  void say_start(const std::optional<checkpoint::Checkpoint>& loaded, const std::string& content) const;
  /// Says that the run was done after `step`, and closes the callbacks, in place of start(). Collective.
  void leave_done(int64_t step);

  /// Whether no step follows `step`: all are done, or a callback has ended the run. Without an argument: the step of
  /// the state, after start().
  [[nodiscard]] bool ended(int64_t step) const;
  [[nodiscard]] bool ended() const { return ended(state_->progress.step); }
  /// Whether there is nothing to do: what find() returned is the last step, and the finished model is there.
  [[nodiscard]] bool done(const std::optional<checkpoint::Checkpoint>& checkpoint) const;
  /// Whether `step` has to be waited for before the next one begins: something that is due after it reads the state, or
  /// the run is about to stop.
  [[nodiscard]] bool must_wait_for(int64_t step) const;
  /// Calls what is due after the step that state.progress has just counted. `settled`: no later step is under way.
  /// Collective.
  void after(const StepResult& result, bool settled);
  /// Whether the run was asked to stop before its end: all ranks have agreed on it, and no step follows.
  [[nodiscard]] bool stopping() const { return supervision_.stop().decided() && !ended(); }
  /// Where no step is under way, and nothing reads what callbacks hold any more: if stopping(), saves, closes the
  /// callbacks, releases the folder, and throws run::Stopped. Collective.
  void stop_if_asked();
  /// Makes sure that there is a checkpoint of this step: on return it is on disk. Collective.
  void save();
  /// Waits for a checkpoint that is on its way. Collective.
  void drain() { saving_.drain(); }
  /// Frees what callbacks hold, after the last step and once. Collective.
  void close();
  /// Unlocks the run folder. Collective.
  void release();
  /// Runs `work`, which is collective. If all ranks throw an AgreedError, the checkpoint on its way is committed before
  /// it is passed on; the folder stays locked as long as this object lives. An error of one rank goes to
  /// Runtime::end_for_own_error first: this object waits for the checkpoint on its way before it goes.
  void guard(const std::function<void()>& work);

  /// Whether start() took the folder and nothing has released it.
  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] run::RunFolder& folder() { return folder_; }
  [[nodiscard]] checkpoint::CheckpointStore& store() { return store_; }

 private:
  const run::CommonConfig& config_;
  const config::Schema& schema_;
  const run::Runtime& runtime_;
  comm::Communicator& world_;
  run::Supervision& supervision_;
  int64_t total_steps_;
  run::Resume resume_;
  run::RunFolder folder_;
  checkpoint::CheckpointStore store_;
  UsageAccount usage_;
  std::vector<Callback*> callbacks_;
  engine::TrainingState* state_ = nullptr;
  bool running_ = false;
  bool closed_ = false;
  Saving saving_;
};

}  // namespace ddpm::train
