// Keeps two processes from writing one output at the same time.
#pragma once

#include <optional>

#include "base/file_lock.h"
#include "base/file_system.h"

namespace ddpm::base {

/// The right to write `target`, until destruction or the end of the process, however it ends. It is an advisory lock
/// (flock) on the file ".NAME.lock" beside the target, which goes with this object; what a killed process leaves of it
/// disturbs nobody. On a file system without such locks it keeps nobody out.
class SoleWriter {
 public:
  /// The folder around `target` is there. Throws OutputError while another process has the right: it never waits.
  SoleWriter(FileSystem& files, const Path& target);
  ~SoleWriter();
  SoleWriter(const SoleWriter&) = delete;
  SoleWriter& operator=(const SoleWriter&) = delete;

 private:
  [[nodiscard]] bool try_to_lock();

  FileSystem& files_;
  Path target_;
  Path place_;  ///< path of the lock's file
  std::optional<FileLock> lock_;
};

}  // namespace ddpm::base
