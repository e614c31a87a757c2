#include "base/file_error.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

namespace ddpm::base {

void throw_file_error(const std::filesystem::path& path, const char* operation, int code) {
  const std::string line = fmt::format("{}: cannot {}: {}", path.string(), operation, std::strerror(code));
  switch (code) {
    case ENXIO:  // a socket, or a pipe that nobody reads
      throw OutputError("{}: cannot {}: not a regular file", path.string(), operation);
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      throw OutputError("{}", line);
    default:
      throw AccessError("{}", line);
  }
}

uint64_t require_regular(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_file_error(path, "examine", errno);
  if (!S_ISREG(status.st_mode)) throw OutputError("{}: not a regular file", path.string());
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace ddpm::base
