#include "data/prepare/packed_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <zlib.h>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16U;
constexpr std::size_t kBuffer = std::size_t{1} << 17U;

/// Whether a gzip member begins with these bytes.
bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

}  // namespace

bool is_there(const base::Path& path) {
  return base::read_as<base::DatasetError>([&] { return base::is_there(path); });
}

std::span<const std::byte> BufferedFile::at(uint64_t offset, std::size_t least) {
  const uint64_t end = first_ + buffer_.size();
  if (offset < first_ || offset + least > end) {
    std::vector<std::byte> bytes = std::exchange(buffer_, {});  // nothing is left in it if the reading fails
    bytes.resize(kBuffer);
    bytes.resize(file_.read_up_to(offset, bytes));
    buffer_ = std::move(bytes);
    first_ = offset;
  }
  return std::span(buffer_).subspan(offset - first_);
}

/// zlib's state, and where it is in the packed bytes.
class PackedFile::Unpacker {
 public:
  Unpacker() {
    constexpr int kGzipOnly = 16;  // added to the window's size, asks for gzip's header and checks
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  void begin_anew() {
    inflateReset(&stream_);
    at_ = 0;
    in_member_ = true;
  }

  /// Unpacks on until `out` is full or the last member has ended; returns the number of bytes.
  std::size_t read(BufferedFile& file, std::span<uint8_t> out) {
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0 && (in_member_ || next_member(file))) unpack(file);
    return out.size() - stream_.avail_out;
  }

 private:
  /// Another member may follow; anything else behind the last one is ignored, as gzip does.
  bool next_member(BufferedFile& file) {
    if (!is_gzip(file.at(at_, 2))) return false;
    inflateReset(&stream_);
    in_member_ = true;
    return true;
  }

  void unpack(BufferedFile& file) {
    const std::span<const std::byte> packed = file.at(at_);
    const auto& path = file.file().path();
    if (packed.empty()) throw base::DatasetError("{}: the gzip file is cut short", path.string());
    // zlib's own type of input is not const; it does not write to it.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));  // NOLINT
    stream_.avail_in = static_cast<uInt>(packed.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    at_ += packed.size() - stream_.avail_in;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END) {
      throw base::DatasetError("{}: the gzip file is damaged: {}", path.string(),
                               stream_.msg != nullptr ? stream_.msg : zError(status));
    }
    in_member_ = status != Z_STREAM_END;
  }

  z_stream stream_ = {};
  uint64_t at_ = 0;
  bool in_member_ = true;
};

PackedFile::PackedFile(base::Path path)
    : file_(base::read_as<base::DatasetError>([&] { return BufferedFile(std::move(path)); })) {
  const bool packed = base::read_as<base::DatasetError>([this] { return is_gzip(file_.at(0, 2)); });
  if (packed) unpacker_ = std::make_unique<Unpacker>();
}

PackedFile::~PackedFile() = default;
PackedFile::PackedFile(PackedFile&&) noexcept = default;
PackedFile& PackedFile::operator=(PackedFile&&) noexcept = default;

/// Copies bytes of a file that is not packed.
std::size_t PackedFile::copy(std::span<uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::span<const std::byte> bytes = file_.at(at_ + done);
    if (bytes.empty()) break;
    const std::size_t count = std::min(bytes.size(), out.size() - done);
    std::memcpy(&out[done], bytes.data(), count);
    done += count;
  }
  return done;
}

std::size_t PackedFile::read_on(std::span<uint8_t> out) {
  constexpr std::size_t kMost = std::size_t{1} << 30U;  // zlib counts in 32 bits
  return base::read_as<base::DatasetError>([&] {
    std::size_t done = 0;
    while (done < out.size()) {
      const auto part = out.subspan(done, std::min(out.size() - done, kMost));
      const std::size_t count = unpacker_ ? unpacker_->read(file_, part) : copy(part);
      done += count;
      at_ += count;
      if (count < part.size()) break;
    }
    return done;
  });
}

void PackedFile::go_to(uint64_t offset) {
  if (!unpacker_) {
    at_ = offset;
    return;
  }
  if (offset < at_) {
    unpacker_->begin_anew();
    at_ = 0;
  }
  std::array<uint8_t, kPiece> dropped;  // NOLINT(cppcoreguidelines-pro-type-member-init): only written
  while (at_ < offset) {
    if (read_on(std::span(dropped).first(std::min<uint64_t>(offset - at_, kPiece))) == 0) return;
  }
}

void PackedFile::read(uint64_t offset, std::span<uint8_t> out) {
  go_to(offset);
  const std::size_t count = read_on(out);
  if (count != out.size()) {
    throw base::DatasetError("{}: ends within bytes {} to {}{}", path().string(), offset, offset + out.size(),
                             packed() ? " unpacked" : "");
  }
}

void PackedFile::expect_size(uint64_t wanted) {
  if (!packed()) {
    if (static_cast<uint64_t>(stamp().size) == wanted) return;
    throw base::DatasetError("{}: {} bytes, wanted {}", path().string(), stamp().size, wanted);
  }
  go_to(0);
  std::array<uint8_t, kPiece> dropped;  // NOLINT(cppcoreguidelines-pro-type-member-init): only written
  while (at_ <= wanted) {
    const uint64_t left = wanted + 1 - at_;
    if (read_on(std::span(dropped).first(std::min<uint64_t>(left, kPiece))) == 0) break;
  }
  if (at_ == wanted) return;
  throw base::DatasetError("{}: {} bytes unpacked, wanted {}", path().string(),
                           at_ > wanted ? fmt::format("more than {}", wanted) : fmt::to_string(at_), wanted);
}

}  // namespace ddpm::data::prepare
