#include "base/file_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

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

FileLock::FileLock(const Path& path, LockKind kind) : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  if (descriptor_ < 0) throw OutputError("{}: cannot open to lock: {}", path.string(), std::strerror(errno));
  int status = try_lock(descriptor_, kind);
  while (status != 0 && errno == EINTR) status = try_lock(descriptor_, kind);
  held_ = status == 0;
  // Held by another: EWOULDBLOCK of flock, EAGAIN or EACCES of fcntl.
  if (held_ || errno == EWOULDBLOCK || errno == EAGAIN || errno == EACCES) return;
  const int code = errno;
  ::close(descriptor_);
  throw OutputError("{}: cannot lock by {}: {}", path.string(), name_of(kind), std::strerror(code));
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace ddpm::base
