// Writes checkpoints, by default while training continues (checkpoint.async): at a step's boundary each rank copies its
// share of the state to host memory, and a thread of its own writes and hashes the shard. From a GPU, the thread waits
// for the copy; the host goes on, and the GPU changes the state when it has been copied. The thread makes no MPI call,
// so a checkpoint becomes valid later, when a step finds that all ranks have written theirs. One is on its way at a
// time. What cannot be written is written once more from the same copy, by all ranks and while training waits: a file
// server that fails once costs no run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/log.h"
#include "checkpoint/config.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"
#include "comm/communicator.h"
#include "engine/training_state.h"
#include "run/placement.h"
#include "run/snapshot.h"

namespace ddpm::run {

/// "checkpoint RUN/checkpoints/step-00000500 written: 4.5 MB in 0.31 s; training waited 0.02 s"
std::string text_of(const checkpoint::SaveReport& saved, double stall_seconds);

class Saver {
 public:
  using Committed = std::function<void(const checkpoint::SaveReport& saved, double stall_seconds)>;
  using Repeating = std::function<void(const comm::AgreedError& failure)>;
  using Waiting = std::function<void()>;
  /// All of them outlive the saver. On every rank `committed` is called for each checkpoint that has become valid,
  /// `repeating` for each that could not be written, before it is written once more, and `waiting` before the one on
  /// its way is waited for: all may be collective.
  Saver(const checkpoint::CheckpointConfig& config, checkpoint::CheckpointStore& store, comm::Communicator& world,
        Committed committed, Repeating repeating, Waiting waiting);
  /// Waits for the thread. What is not committed by then stays a hidden folder, which the next run removes.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// What `fill` adds to the request besides slices and counters. It may write files, too, and is called again for a
  /// second attempt.
  using Fill = std::function<void(checkpoint::SaveRequest& request)>;
  /// Copies the state and has it written; commits the one before first. Throws AgreedError when either cannot be
  /// written twice in a row (exit code 4), at once when another run has taken the folder (4), or when it holds a value
  /// that is not finite (6): such a state never becomes a checkpoint. Collective.
  void save(engine::TrainingState& state, const Replica& replica, const std::string& config_hash,
            const Fill& fill = {});
  /// The step of the newest checkpoint: loaded, on its way, or committed; -1: none.
  [[nodiscard]] int64_t newest_step() const { return newest_step_; }
  void set_newest_step(int64_t step) { newest_step_ = committed_step_ = step; }
  /// The step of the newest checkpoint that is valid; -1: none.
  [[nodiscard]] int64_t committed_step() const { return committed_step_; }

  /// What this rank adds to a step's sums: 1 while its thread is at work.
  [[nodiscard]] double vote() const { return writing_.load(std::memory_order_acquire) ? 1.0 : 0.0; }
  /// Whether a checkpoint is on its way; the same on every rank.
  [[nodiscard]] bool pending() const { return pending_.has_value(); }
  /// Waits for the checkpoint on its way, if there is one, and commits it. Collective.
  void drain();
  /// Does `work`. When the ranks agree on an error in it, the checkpoint on its way is committed nevertheless.
  void guard(const std::function<void()>& work);

 private:
  template <typename Work>
  auto twice(const Work& work);
  bool write_beside();
  void write() noexcept;
  checkpoint::SaveReport commit();

  const checkpoint::CheckpointConfig& config_;
  checkpoint::CheckpointStore& store_;
  comm::Communicator& world_;
  Committed committed_;
  Repeating repeating_;
  Waiting waiting_;
  Snapshot snapshot_;  // kept from save to save: fresh memory would cost as much as copying
  std::optional<checkpoint::PendingSave> pending_;
  double stall_seconds_ = 0.0;
  int64_t newest_step_ = -1;
  int64_t committed_step_ = -1;
  std::jthread thread_;
  std::atomic<bool> writing_ = false;
  // The thread alone uses these until writing_ is false:
  std::string failure_;
  std::string poisoned_;  // the name of a tensor with a value that is not finite
};

}  // namespace ddpm::run
