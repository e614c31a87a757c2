// Keeps a second process out of a folder that is being filled.
#pragma once

#include "base/file_system.h"

namespace ddpm::data::prepare {

/// An advisory lock (flock) on a folder, held until destruction or the end of the process, however it ends. Nothing is
/// left on disk. On a file system without such locks it does nothing.
class FolderLock {
 public:
  /// Throws OutputError when another process holds it or the folder cannot be opened.
  explicit FolderLock(const base::Path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace ddpm::data::prepare
