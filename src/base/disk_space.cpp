#include "base/disk_space.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

std::string megabytes(uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

/// errno of reserving `bytes` below `folder`: 0 when they are there, or when it cannot be tried.
int try_to_reserve(const Path& folder, uint64_t bytes) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return errno == EDQUOT || errno == ENOSPC ? errno : 0;
  const int failed = ::fallocate(file, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  ::close(file);
  return failed == EDQUOT || failed == ENOSPC ? failed : 0;
}

}  // namespace

void expect_room(const FileSystem& files, const Path& path, uint64_t bytes, const std::string& what) {
  const Path folder = nearest_existing(files, path);
  const uint64_t free = files.free_bytes(folder);
  if (free < bytes) {
    throw OutputError("{}: {} of space are free, {} takes {}", folder.string(), megabytes(free), what,
                      megabytes(bytes));
  }
  const int failed = try_to_reserve(folder, bytes);
  if (failed == 0) return;
  throw OutputError("{}: {} takes {}, which {}", folder.string(), what, megabytes(bytes),
                    failed == EDQUOT ? "is more than your quota allows" : "cannot be reserved");
}

}  // namespace ddpm::base
