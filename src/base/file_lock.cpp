#include "base/file_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

int try_lock(int descriptor, LockKind kind) {
  if (kind == LockKind::flock) return ::flock(descriptor, LOCK_EX | LOCK_NB);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(descriptor, F_SETLK, &whole);
}

}  // namespace

const char* name_of(LockKind kind) { return kind == LockKind::flock ? "flock" : "fcntl"; }

FileLock::FileLock(const Path& path, LockKind kind) : descriptor_(path, O_RDWR, "open to lock") {
  int status = try_lock(descriptor_.get(), kind);
  while (status != 0 && errno == EINTR) status = try_lock(descriptor_.get(), kind);
  held_ = status == 0;
  // A lock held by another process gives EWOULDBLOCK (flock), EAGAIN or EACCES (fcntl).
  if (held_ || errno == EWOULDBLOCK || errno == EAGAIN || errno == EACCES) return;
  throw OutputError("{}: cannot lock by {}: {}", path.string(), name_of(kind), std::strerror(errno));
}

FileIdentity FileLock::identity() const {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0)
    throw OutputError("a locked file: cannot examine: {}", std::strerror(errno));
  return {.device = status.st_dev, .inode = status.st_ino};
}

}  // namespace ddpm::base
