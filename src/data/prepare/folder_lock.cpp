#include "data/prepare/folder_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"

namespace ddpm::data::prepare {

FolderLock::FolderLock(const base::Path& folder, Kind kind)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw base::OutputError("{}: cannot open: {}", folder.string(), std::strerror(errno));
  const int how = kind == Kind::exclusive ? LOCK_EX : LOCK_SH;
  if (::flock(descriptor_, how | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw base::OutputError("{}: another process is at work in this folder; wait for it or end it", folder.string());
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void FolderLock::share() {
  if (::flock(descriptor_, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw base::OutputError("another process has taken over the folder that this one had locked");
  }
}

}  // namespace ddpm::data::prepare
