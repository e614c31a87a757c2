// Which checkpoints of RUN/checkpoints go when a newer one has been written. On one rank, no communication.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/manifest.h"

namespace ddpm::checkpoint {

/// Which older checkpoints stay. The one just written, the `keep_latest` newest whole ones (at least one), multiples of
/// `keep_every` (0: none) and `pinned` steps (the best one by validation loss) are never removed; nor are the newest
/// two (one where keep_latest is 1) whose every byte this process has compared with its checksum.
struct Retention {
  int64_t keep_latest = 3;
  int64_t keep_every = 0;
  std::set<int64_t> pinned = {};
};

/// Answers a question about the checkpoint of a step.
using StepTest = std::function<bool(int64_t step)>;

/// Returns the steps to delete, from `steps` in any order, after `written` was saved. Incomplete checkpoints are
/// neither counted nor deleted. `is_whole` is asked about the newest until enough are whole, and about those to delete,
/// but not about the others, of which a run may keep thousands.
std::vector<int64_t> superfluous_steps(std::vector<int64_t> steps, int64_t written, const Retention& retention,
                                       const StepTest& is_whole, const StepTest& is_verified);

/// Removes superseded checkpoints, and remembers between commits what need not be examined again.
class Keeper {
 public:
  Keeper(base::FileSystem& files, base::Path checkpoints, const base::Logger& logger)
      : files_(files), checkpoints_(std::move(checkpoints)), logger_(logger) {}

  /// Every byte of that checkpoint has been read and compared with its checksum.
  void verified(const Manifest& manifest);
  /// Removes the checkpoints that are superseded now that step `written` exists. `guard` is called before the first is
  /// touched; what it throws comes through. Warns of a folder that cannot be removed.
  void apply(int64_t written, const Retention& retention, const std::function<void()>& guard);

 private:
  [[nodiscard]] std::vector<int64_t> steps() const;
  [[nodiscard]] bool is_whole(int64_t step);
  void remove(const std::vector<int64_t>& steps);

  base::FileSystem& files_;
  base::Path checkpoints_;
  const base::Logger& logger_;
  std::map<int64_t, std::vector<std::string>> verified_;  ///< files of each, sorted
  std::set<int64_t> damaged_;                             ///< told of before
};

}  // namespace ddpm::checkpoint
