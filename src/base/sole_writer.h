// Keeps two processes from writing one output at the same time.
#pragma once

#include "base/lock_file.h"

namespace ddpm::base {

/// The right to write `target`, until destruction or the end of the process, however it ends: a LockFile ".NAME.lock"
/// beside the target. On a file system without locks it keeps nobody out.
class SoleWriter {
 public:
  /// The folder around `target` is there. Throws OutputError while another process has the right: it never waits.
  SoleWriter(FileSystem& files, const Path& target);

 private:
  LockFile lock_;
};

}  // namespace ddpm::base
