#include "data/folder_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>

#include "base/error.h"

namespace ddpm::data {
namespace {

/// Tries to lock. Where the file system has no locks, none is held.
bool is_held_elsewhere(int descriptor, int how) {
  int status = ::flock(descriptor, how | LOCK_NB);
  while (status != 0 && errno == EINTR) status = ::flock(descriptor, how | LOCK_NB);
  return status != 0 && errno == EWOULDBLOCK;
}

}  // namespace

FolderLock::FolderLock(const base::Path& folder, Kind kind) : descriptor_(folder, O_RDONLY | O_DIRECTORY, "open") {
  if (is_held_elsewhere(descriptor_.get(), kind == Kind::exclusive ? LOCK_EX : LOCK_SH)) {
    throw base::OutputError("{}: another process is at work in this folder; wait for it or end it", folder.string());
  }
}

void FolderLock::share() {
  if (is_held_elsewhere(descriptor_.get(), LOCK_SH)) {
    throw base::OutputError("another process has taken over the folder that this one had locked");
  }
}

}  // namespace ddpm::data
