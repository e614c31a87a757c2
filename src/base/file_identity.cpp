#include "base/file_identity.h"

#include <sys/stat.h>

namespace ddpm::base {

std::optional<FileIdentity> identity_of(const Path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev, .inode = status.st_ino};
}

}  // namespace ddpm::base
