// Keeps other processes out of a folder that is being filled.
#pragma once

#include <cstdint>

#include "base/descriptor.h"
#include "base/file_system.h"

namespace ddpm::data {

/// An advisory lock (flock) on a folder, held until destruction or the end of the process, however it ends. Nothing is
/// left on disk. On a file system without such locks it does nothing.
///
/// The first rank of a job takes it exclusively, then shares it with the job's other ranks: so the next job is kept out
/// also by a rank that outlives a killed launcher for a while.
class FolderLock {
 public:
  enum class Kind : uint8_t { exclusive, shared };

  /// Throws OutputError when another process is in the way or the folder cannot be opened.
  FolderLock(const base::Path& folder, Kind kind);

  /// From exclusive to shared. Throws OutputError when another process came in between: the change is not atomic.
  void share();

 private:
  base::Descriptor descriptor_;
};

}  // namespace ddpm::data
