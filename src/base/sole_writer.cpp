#include "base/sole_writer.h"

#include <exception>

#include "base/error.h"
#include "base/file_identity.h"

namespace ddpm::base {

SoleWriter::SoleWriter(FileSystem& files, const Path& target)
    : files_(files),
      target_(target),
      place_(target.parent_path() / fmt::format(".{}.lock", target.filename().string())) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_to_lock()) return;
  }
  throw OutputError("{}: cannot be locked, since others lock and remove it all the time", place_.string());
}

/// False: whoever had the lock has removed the file since it was opened here, and a lock on it is worth nothing.
bool SoleWriter::try_to_lock() {
  files_.open_append(place_)->close();
  try {
    lock_.emplace(place_, LockKind::flock);
  } catch (const OutputError&) {
    if (!files_.exists(place_)) return false;
    files_.remove(place_);  // this file system has no such locks
    return true;
  }
  if (!lock_->held()) {
    throw OutputError("{}: another process is writing it, and holds {}; wait for its end, or name another place",
                      target_.string(), place_.filename().string());
  }
  return !is_displaced(place_, lock_->identity());
}

SoleWriter::~SoleWriter() {
  if (!lock_) return;
  try {
    files_.remove(place_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): what is left disturbs nobody
  }
}

}  // namespace ddpm::base
