// A file that exists to be locked.
#pragma once

#include <optional>

#include "base/file_lock.h"
#include "base/file_system.h"

namespace ddpm::base {

/// An advisory lock (flock) on a file of its own, until destruction or the end of the process, however it ends. It is
/// not taken on the folder that it stands for: on NFS and Lustre a lock on a folder keeps out processes of the same
/// node alone. The last one to let go removes the file; what killed processes leave of it disturbs nobody. On a file
/// system without such locks it keeps nobody out.
class LockFile {
 public:
  /// The folder around `place` is there. Never waits: see held(). Throws OutputError where the file cannot be made, or
  /// not be opened for writing.
  LockFile(FileSystem& files, Path place, Hold hold);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  /// Whether nobody was in the way.
  [[nodiscard]] bool held() const { return !lock_ || lock_->held(); }
  /// Whether it keeps others out: false on a file system without such locks, where held() is true all the same.
  [[nodiscard]] bool excludes() const { return lock_.has_value(); }
  /// Lets others hold it, too; see held() for whether one came in between who holds it alone.
  void share();
  [[nodiscard]] const Path& place() const { return place_; }

 private:
  [[nodiscard]] bool try_to_lock(Hold hold);
  void remove();

  FileSystem& files_;
  Path place_;
  std::optional<FileLock> lock_;
};

}  // namespace ddpm::base
