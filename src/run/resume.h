// Finds and loads the state that training resumes from, by the run folder and checkpoint.resume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "comm/communicator.h"
#include "config/schema.h"
#include "engine/training_state.h"
#include "run/run_folder.h"

namespace ddpm::run {

/// Throws OutputError when the checkpoint was trained on other images than `dataset`, whose content has the hash
/// `content_hash`, holds.
void expect_same_images(const checkpoint::Checkpoint& checkpoint, const std::string& content_hash,
                        const base::Path& dataset);

/// Returns the state, a JSON object, of the newest checkpoint in the run folder `run` that can be read; "" when there
/// is none, or it was trained on other images than those with this `content_hash`. Not collective: one rank calls it.
std::string newest_state(const base::FileSystem& files, const base::Path& run, const std::string& content_hash);

/// Returns the state of the newest checkpoint in `run` that can be read, whatever it was trained on, or else that of
/// the checkpoint that checkpoint.resume, `resume`, names; "" when there is none. Not collective.
std::string state_of_other_images(const base::FileSystem& files, const base::Path& run, const std::string& resume);

/// checkpoint.resume: "auto", "never" or the path of a checkpoint.
class Resume {
 public:
  /// `value` is not empty.
  explicit Resume(std::string value) : value_(std::move(value)) {}

  /// Returns the checkpoint to resume from, or none for a new run: a named one, or the newest that the run has written
  /// since it was resumed from there, even if the named one is gone; with "auto" the run's newest readable one.
  /// Collective. Throws OutputError when the value is "never" and there is one, and ConfigError when the full name of
  /// what the value names is not UTF-8.
  [[nodiscard]] std::optional<checkpoint::Checkpoint> find(const RunFolder& run, checkpoint::CheckpointStore& store,
                                                           const base::FileSystem& files, comm::Communicator& world);

  /// Call it with the run's lock: throws OutputError when the run has other checkpoints than find() saw, because
  /// another start was faster and what was loaded is no longer the newest. Collective.
  void expect_unchanged(const RunFolder& run, checkpoint::CheckpointStore& store, comm::Communicator& world) const;

  /// Loads it into `state`, and reports what differs from the run that saved it. Collective.
  void load(const checkpoint::Checkpoint& checkpoint, engine::TrainingState& state, checkpoint::CheckpointStore& store,
            const config::Schema& configuration, comm::Communicator& world, const base::Logger& log) const;

 private:
  std::string value_;
  std::vector<int64_t> seen_;    ///< steps of the run's checkpoints, as find() saw them
  std::string named_;            ///< the checkpoint that `value_` names, as rank 0 sees it
  bool resumed_before_ = false;  ///< the run was resumed from the named one before
};

}  // namespace ddpm::run
