// Keeps other processes out of a folder that is being filled.
#pragma once

#include "base/lock_file.h"

namespace ddpm::data {

/// A lock on a folder, held until destruction or the end of the process, however it ends: a base::LockFile FOLDER.lock
/// beside it. On a file system without locks it keeps nobody out.
///
/// The first rank of a job takes it alone, then shares it with the job's other ranks: so the next job is kept out also
/// by a rank that outlives a killed launcher for a while.
class FolderLock {
 public:
  /// The folder itself need not be there yet. Throws OutputError when another process is in the way or there is no
  /// place for the lock. `files` outlives the object.
  FolderLock(base::FileSystem& files, const base::Path& folder, base::Hold hold);

  /// Lets others hold it, too. Throws OutputError when another process came in between: the change is not atomic.
  void share();

 private:
  base::LockFile lock_;
};

}  // namespace ddpm::data
