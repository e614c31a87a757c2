#include "base/file_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

int try_lock(int descriptor, LockKind kind, Hold hold) {
  if (kind == LockKind::flock) return ::flock(descriptor, (hold == Hold::alone ? LOCK_EX : LOCK_SH) | LOCK_NB);
  struct flock whole {};
  whole.l_type = hold == Hold::alone ? F_WRLCK : F_RDLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(descriptor, F_SETLK, &whole);
}

}  // namespace

const char* name_of(LockKind kind) { return kind == LockKind::flock ? "flock" : "fcntl"; }

FileLock::FileLock(const Path& path, LockKind kind, Hold hold)
    : path_(path), descriptor_(path, O_RDWR, "open to lock"), kind_(kind) {
  change(hold);
}

void FileLock::change(Hold hold) {
  int status = try_lock(descriptor_.get(), kind_, hold);
  while (status != 0 && errno == EINTR) status = try_lock(descriptor_.get(), kind_, hold);
  held_ = status == 0;
  // A lock held by another process gives EWOULDBLOCK (flock), EAGAIN or EACCES (fcntl).
  if (held_ || errno == EWOULDBLOCK || errno == EAGAIN || errno == EACCES) return;
  throw OutputError("{}: cannot lock by {}: {}", path_.string(), name_of(kind_), std::strerror(errno));
}

FileIdentity FileLock::identity() const {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0)
    throw OutputError("{}: cannot examine: {}", path_.string(), std::strerror(errno));
  return {.device = status.st_dev, .inode = status.st_ino};
}

}  // namespace ddpm::base
