#include "base/file_error.h"

#include <cerrno>
#include <cstring>

namespace ddpm::base {

void throw_file_error(const std::filesystem::path& path, const char* operation, int code) {
  const std::string line = fmt::format("{}: cannot {}: {}", path.string(), operation, std::strerror(code));
  switch (code) {
    case ENXIO:  // a socket, or a pipe that nobody reads
      throw OutputError("{}: cannot {}: not a regular file", path.string(), operation);
    case ENOENT:
    case ESRCH:  // of /proc: the process has ended
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      throw OutputError("{}", line);
    default:
      throw AccessError("{}", line);
  }
}

}  // namespace ddpm::base
