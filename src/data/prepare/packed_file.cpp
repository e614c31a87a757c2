#include "data/prepare/packed_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/pulse.h"

namespace ddpm::data::prepare {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16U;
constexpr unsigned kBuffer = 1U << 17U;

gzFile handle_of(void* file) { return static_cast<gzFile>(file); }

FileStamp stamp_of(const struct stat& status) {
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

void PackedFile::Close::operator()(void* file) const { gzclose(handle_of(file)); }

PackedFile::PackedFile(base::Path path) : path_(std::move(path)) {
  // A pipe that nobody writes to would keep the open waiting for ever.
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) throw base::DatasetError("{}: cannot open: {}", path_.string(), std::strerror(errno));
  struct stat status = {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  file_.reset(regular ? gzdopen(descriptor, "rb") : nullptr);
  if (!file_) {
    ::close(descriptor);
    throw base::DatasetError("{}: {}", path_.string(), regular ? "out of memory" : "not a regular file");
  }
  stamp_ = stamp_of(status);
  gzbuffer(handle_of(file_.get()), kBuffer);
  packed_ = gzdirect(handle_of(file_.get())) == 0;
}

std::size_t PackedFile::read_on(std::span<uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto wanted = static_cast<unsigned>(std::min(out.size() - done, std::size_t{1} << 30U));
    const int count = gzread(handle_of(file_.get()), &out[done], wanted);
    if (count < 0) break;
    done += static_cast<std::size_t>(count);
    base::pulse();
    if (static_cast<unsigned>(count) < wanted) break;
  }
  at_ += done;
  int code = Z_OK;
  const char* text = gzerror(handle_of(file_.get()), &code);
  if (code == Z_BUF_ERROR) throw base::DatasetError("{}: the gzip file is cut short", path_.string());
  if (code == Z_ERRNO) throw base::DatasetError("{}: cannot read: {}", path_.string(), std::strerror(errno));
  if (code < 0) throw base::DatasetError("{}: the gzip file is damaged: {}", path_.string(), text);
  return done;
}

void PackedFile::go_to(uint64_t offset) {
  // A seek would drop what zlib has read ahead: small gaps are read through.
  if (offset >= at_ && offset - at_ <= kPiece) {
    std::array<uint8_t, kPiece> dropped;  // NOLINT(cppcoreguidelines-pro-type-member-init): only written
    read_on(std::span(dropped).first(offset - at_));
    return;
  }
  if (gzseek(handle_of(file_.get()), static_cast<z_off_t>(offset), SEEK_SET) < 0) {
    throw base::DatasetError("{}: cannot go to byte {}", path_.string(), offset);
  }
  at_ = offset;
}

void PackedFile::read(uint64_t offset, std::span<uint8_t> out) {
  go_to(offset);
  const std::size_t count = read_on(out);
  if (count != out.size()) {
    throw base::DatasetError("{}: ends within bytes {} to {}{}", path_.string(), offset, offset + out.size(),
                             packed_ ? " unpacked" : "");
  }
}

void PackedFile::expect_size(uint64_t wanted) {
  if (!packed_) {
    if (static_cast<uint64_t>(stamp_.size) == wanted) return;
    throw base::DatasetError("{}: {} bytes, wanted {}", path_.string(), stamp_.size, wanted);
  }
  go_to(0);
  std::array<uint8_t, kPiece> dropped;  // NOLINT(cppcoreguidelines-pro-type-member-init): only written
  while (at_ <= wanted) {
    const uint64_t left = wanted + 1 - at_;
    if (read_on(std::span(dropped).first(std::min<uint64_t>(left, kPiece))) == 0) break;
  }
  if (at_ == wanted) return;
  throw base::DatasetError("{}: {} bytes unpacked, wanted {}", path_.string(),
                           at_ > wanted ? fmt::format("more than {}", wanted) : fmt::to_string(at_), wanted);
}

}  // namespace ddpm::data::prepare
