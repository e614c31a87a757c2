#include "base/quiet_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace ddpm::base {

QuietFile::QuietFile(const std::filesystem::path& path) : descriptor_(path, O_RDWR | O_TRUNC, "create") {}

void QuietFile::note_failure() {
  if (error_ == 0) error_ = errno;
}

void QuietFile::read(uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(descriptor_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) note_failure();
    if (n <= 0) break;
    offset += static_cast<uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  std::ranges::fill(out, std::byte{0});
}

void QuietFile::write(uint64_t offset, std::span<const std::byte> in) {
  size_ = std::max(size_, offset + in.size());
  while (!in.empty() && error_ == 0) {
    const ssize_t n = ::pwrite(descriptor_.get(), in.data(), in.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;  // no progress and no reason: some network file systems
    if (n <= 0) return note_failure();
    offset += static_cast<uint64_t>(n);
    in = in.subspan(static_cast<std::size_t>(n));
  }
}

void QuietFile::resize(uint64_t size) {
  size_ = size;
  if (error_ == 0 && ::ftruncate(descriptor_.get(), static_cast<off_t>(size)) != 0) note_failure();
}

void QuietFile::close() {
  if (descriptor_.close() != 0) note_failure();
}

std::string QuietFile::failure() const { return error_ == 0 ? "" : std::strerror(error_); }

}  // namespace ddpm::base
