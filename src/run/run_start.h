// Makes the run folder this run's, between loading or making a state and the first step.
#pragma once

#include <cstdint>
#include <optional>

#include "base/file_system.h"
#include "checkpoint/store.h"
#include "engine/training_state.h"
#include "run/fault.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/runtime.h"
#include "run/saver.h"
#include "run/supervision.h"

namespace ddpm::run {

/// What a run has when it starts.
struct RunParts {
  RunFolder& run;
  checkpoint::CheckpointStore& store;
  Saver& saver;
  Supervision& supervision;
  const Resume& resume;
  int64_t finished_models = 1;  ///< that it writes at its end
};

/// Locks the folder, makes sure that all ranks can work in it, removes what a killed run has left, looks for room for a
/// checkpoint and the finished models, refuses when another run has worked in the folder since `resume` looked, counts
/// the start, claims the folder, and sets checkpoints aside that are newer than the one the run resumed from. `loaded`:
/// where `state` comes from. Throws AgreedError, or Stopped when a rank was asked to stop; then the folder is as
/// before, but for leftovers and starts.json. Collective.
void start_run(const RunParts& parts, const Runtime& runtime, const std::optional<checkpoint::Checkpoint>& loaded,
               const engine::TrainingState& state, const FaultConfig& fault);

/// The part of start_run that changes nothing: throws OutputError when there is no room for `bytes`, those of a
/// checkpoint with so many finished models, and CommunicationError when a run was started from `step` too often
/// (count_start). On one rank.
void expect_startable(base::FileSystem& files, const base::Path& run_directory, int64_t bytes, int64_t finished_models,
                      int64_t step, const FaultConfig& fault);

/// RUN/starts.json: how often a run was started from the same step. A run that never reaches its next checkpoint would
/// otherwise be requeued for ever. Counts a start that resumes from `step`; throws CommunicationError (exit code 5),
/// and counts nothing, when there were `limit` of them already; 0: no limit. On one rank, which holds the run's lock.
void count_start(base::FileSystem& files, const base::Path& run_directory, int64_t step, int64_t limit);

}  // namespace ddpm::run
