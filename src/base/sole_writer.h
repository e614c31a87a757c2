// Keeps two processes from writing one output at the same time.
#pragma once

#include <optional>

#include "base/file_system.h"
#include "base/lock_file.h"

namespace ddpm::base {

/// The right to write `target`, until destruction or the end of the process, however it ends: a LockFile ".NAME.lock"
/// beside the target. On a file system without locks it keeps nobody out. A signal that ends the process takes the file
/// with it (base::Unfinished).
class SoleWriter {
 public:
  /// The folder around `target` is there. Throws OutputError while another process has the right: it never waits.
  SoleWriter(FileSystem& files, const Path& target);

  /// Whether it keeps others out. Only then may what lies half-written beside the target be taken for a dead one's.
  [[nodiscard]] bool excludes() const { return lock_.excludes(); }

 private:
  LockFile lock_;
  std::optional<Unfinished> unfinished_;  ///< the lock's file, once it is held
};

}  // namespace ddpm::base
