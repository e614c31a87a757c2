// Advisory locks on a whole file: by flock(2), as those that write one output take them (base/sole_writer.h), and by
// fcntl(2), as MPI-IO may take them. The lock on a run folder needs neither; `ddpm doctor` asks whether a file system
// has them and whether they exclude.
#pragma once

#include <cstdint>

#include "base/descriptor.h"
#include "base/file_system.h"
#include "base/input_file.h"

namespace ddpm::base {

enum class LockKind : uint8_t { flock, fcntl };
/// Whether others may hold the lock, too, each as shared.
enum class Hold : uint8_t { alone, shared };

/// "flock", "fcntl"
const char* name_of(LockKind kind);

/// An attempt to lock a regular file. It never waits. The lock is let go at the end of the object's life.
class FileLock {
 public:
  /// `path` must exist. Throws OutputError where it cannot be opened for writing, or the file system refuses such locks
  /// (ENOLCK, ENOSYS ...).
  FileLock(const Path& path, LockKind kind, Hold hold = Hold::alone);

  /// Whether the lock was obtained. False when somebody else is in the way.
  [[nodiscard]] bool held() const { return held_; }
  /// Holds the lock in the other way from now on, if nobody is in the way: see held(). It may be lost to somebody who
  /// comes in between.
  void change(Hold hold);
  /// The file that was opened, whatever its path leads to now.
  [[nodiscard]] FileIdentity identity() const;

 private:
  Path path_;
  Descriptor descriptor_;
  LockKind kind_;
  bool held_ = false;
};

}  // namespace ddpm::base
