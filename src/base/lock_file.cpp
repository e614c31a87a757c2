#include "base/lock_file.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/file_identity.h"

namespace ddpm::base {

LockFile::LockFile(FileSystem& files, Path place, Hold hold) : files_(files), place_(std::move(place)) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_to_lock(hold)) return;
  }
  throw OutputError("{}: cannot be locked, since others lock and remove it all the time", place_.string());
}

/// False: whoever had the lock has removed the file since it was made or opened here, and a lock on it is worth
/// nothing.
bool LockFile::try_to_lock(Hold hold) {
  files_.open_append(place_)->close();
  try {
    lock_.emplace(place_, LockKind::flock, hold);
  } catch (const OutputError&) {
    return files_.exists(place_);  // this file system has no such locks
  }
  return !lock_->held() || !is_displaced(place_, lock_->identity());
}

void LockFile::share() {
  if (lock_) lock_->change(Hold::shared);
}

void LockFile::remove() {
  try {
    files_.remove(place_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): what is left disturbs nobody
  }
}

LockFile::~LockFile() {
  if (!lock_) remove();
  if (!lock_ || !lock_->held()) return;
  try {
    lock_->change(Hold::alone);
    if (lock_->held() && !is_displaced(place_, lock_->identity())) remove();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the file stays, and disturbs nobody
  }
}

}  // namespace ddpm::base
