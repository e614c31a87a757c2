#include "base/file_error.h"

#include <cerrno>
#include <cstring>

namespace ddpm::base {

void throw_file_error(const std::filesystem::path& path, const char* operation, int code) {
  const std::string line = fmt::format("{}: cannot {}: {}", path.string(), operation, std::strerror(code));
  // A socket, or a pipe that nobody reads.
  if (code == ENXIO) throw OutputError("{}: cannot {}: not a regular file", path.string(), operation);
  if (is_access_failure(code)) throw AccessError("{}", line);
  throw OutputError("{}", line);
}

bool is_access_failure(int code) {
  switch (code) {
    case ENXIO:
    case ENOENT:
    case ESRCH:  // reported by /proc: the process has ended
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return false;
    default:
      return true;
  }
}

}  // namespace ddpm::base
