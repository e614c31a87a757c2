#include "base/descriptor.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file_error.h"
#include "base/file_retry.h"

namespace ddpm::base {
namespace {

constexpr mode_t kFileMode = 0666;

/// An open that creates is made once: a file server that answers late may have made the file.
int open_file(const char* path, int flags) {
  const auto open = [&] { return ::open(path, flags | O_CLOEXEC, kFileMode); };
  return (flags & O_CREAT) != 0 ? open() : with_retries(open);
}

}  // namespace

void allow_many_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

Descriptor::Descriptor(const std::filesystem::path& path, int flags, const char* operation)
    : value_(open_file(path.c_str(), flags)) {
  if (value_ < 0) throw_file_error(path, operation, errno);
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

int Descriptor::close() { return ::close(std::exchange(value_, -1)); }

}  // namespace ddpm::base
