// The run folder: who owns it, what it holds, and how it is claimed.
//
//   RUN/config.toml  metrics.jsonl  events/  checkpoints/  model/  model.previous/  model-best/  LOCK  LATEST
//   starts.json  usage.jsonl  mean_model/ (of a run with diffusion.mean_model)
//   metrics.csv samples/ logs/ profile/ (on request)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/run_files.h"
#include "checkpoint/run_lock.h"
#include "comm/communicator.h"
#include "config/resolve.h"
#include "run/config.h"

namespace ddpm::run {

/// Permissions that this process's new files lack from now on.
void set_file_mask(Umask umask);

/// The run.umask in the config.toml of a run, or the key's default if the file does not exist; the file's other keys
/// are ignored, since keys of a user's own model are not known here. Throws base::OutputError when the file cannot be
/// read or has another value.
Umask stored_umask(const base::FileSystem& files, const base::Path& config_file);

class RunFolder {
 public:
  /// Looks at `path`, the value of run.directory, without changing it. Collective. A folder that holds something else,
  /// or a run whose identity keys differ from those of `configuration` (both values are named), throws AgreedError with
  /// exit code 4. Changed keys that may change are logged.
  RunFolder(base::FileSystem& files, comm::Communicator& comm, const base::Logger& log, base::Path path,
            const config::Schema& configuration);

  [[nodiscard]] const base::Path& path() const { return path_; }
  /// Whether a run was found.
  [[nodiscard]] bool resumes() const { return resumes_; }
  /// Whether the finished model is there.
  [[nodiscard]] bool has_model() const { return has_model_; }

  [[nodiscard]] base::Path metrics() const { return path_ / checkpoint::kMetricsName; }
  /// What the run has used: train/usage_account.h.
  [[nodiscard]] base::Path usage() const { return path_ / checkpoint::kUsageName; }
  [[nodiscard]] base::Path events() const { return path_ / checkpoint::kEventsFolder; }
  [[nodiscard]] base::Path table() const { return path_ / checkpoint::kTableName; }
  [[nodiscard]] base::Path samples() const { return path_ / checkpoint::kSamplesFolder; }
  [[nodiscard]] base::Path logs() const { return path_ / checkpoint::kLogsFolder; }
  [[nodiscard]] base::Path profiles() const { return path_ / checkpoint::kProfileFolder; }
  [[nodiscard]] base::Path model() const { return path_ / checkpoint::kModelFolder; }
  /// The model of the checkpoint with the best validation loss, where there are validations.
  [[nodiscard]] base::Path best_model() const { return path_ / checkpoint::kBestModelFolder; }

  /// Creates the folder and locks it; sets the process's umask to run.umask on every rank first. `force_unlock` takes
  /// the folder from another run that holds it. Collective.
  void lock(bool force_unlock = false);
  /// Call it with the lock: throws AgreedError (exit code 4) when a rank sees another folder under this name, or
  /// cannot make files where checkpoints are made. Collective.
  void expect_shared();
  /// Undoes lock(): folders that it made are removed if they are empty. Collective.
  void withdraw();
  /// Call it with the lock: writes config.toml; an existing model becomes model.previous, since training continues.
  /// Collective.
  void claim();
  /// Whether the lock has been seen to be another's, as of its last renewal. False on the ranks other than 0.
  [[nodiscard]] bool lost() const { return lock_ && lock_->lost(); }
  /// On rank 0, throws base::OutputError when another run has taken the folder since. It serves
  /// CheckpointStore::set_guard.
  void expect_owned();
  /// On all ranks, throws AgreedError when another run has taken the folder since. Collective.
  void require_owned();
  /// Removes the previous model, once the new one is written, and what that has displaced. Here and below: where
  /// something cannot be removed, a warning says so, it stays under a hidden name, and the next claim() tries again.
  /// Collective.
  void drop_previous_model();
  /// Removes the best model, if there is one. Collective.
  void drop_best_model();
  /// Unlocks. Collective.
  void release();
  /// What is called for an error of this rank alone, while it is handled. If it ends the job, it calls `unlock` before.
  using OwnError = std::function<void(const std::function<void()>& unlock)>;
  /// Runs a part of the training. What it throws on one rank alone ends the job, so the rank that says its error
  /// unlocks the folder first, by `on_own_error` or after it; what all ranks throw together unlocks it as they leave.
  void guard(const std::function<void()>& work, const OwnError& on_own_error);

 private:
  /// What a folder holds at the start.
  enum class Content : uint8_t { no_run, run, run_with_model };
  [[nodiscard]] Content inspect() const;
  [[nodiscard]] std::vector<config::Difference> stored_differences(const base::Path& stored) const;
  [[nodiscard]] base::Path previous_model() const { return path_ / checkpoint::kPreviousModelFolder; }
  void tidy_up(const std::function<void()>& work);
  void warn_of_left(const std::vector<std::string>& errors) const;

  base::FileSystem& files_;
  comm::Communicator& comm_;
  const base::Logger& log_;
  const config::Schema& configuration_;
  base::Path path_;
  bool resumes_ = false;
  bool has_model_ = false;
  std::vector<base::Path> made_;  // by lock(), on rank 0, the deepest first
  std::optional<checkpoint::RunLock> lock_;
};

}  // namespace ddpm::run
