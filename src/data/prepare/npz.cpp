#include "data/prepare/npz.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "base/error.h"
#include "base/file_error.h"

namespace ddpm::data::prepare {
namespace {

using base::DatasetError;

// Sizes and marks of the format (APPNOTE.TXT, sections 4.3.7 to 4.3.16); all numbers are little-endian.
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kMostComment = 65535;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr uint32_t kEndMark = 0x06054b50;
constexpr uint32_t kLocatorMark = 0x07064b50;
constexpr uint32_t kEnd64Mark = 0x06064b50;
constexpr uint32_t kEntryMark = 0x02014b50;
constexpr uint32_t kLocalMark = 0x04034b50;
constexpr uint64_t kMostMembers = 4096;
constexpr uint64_t kMostDirectory = uint64_t{4} << 20U;
constexpr std::size_t kNpzPiece = std::size_t{1} << 16U;

/// Part of an archive, whose numbers are read by their places.
class Record {
 public:
  Record(const base::InputFile& file, uint64_t at, std::size_t size) : bytes_(size), path_(file.path()) {
    if (at > file.size() || size > file.size() - at) malformed("a record lies beyond its end");
    file.read(at, bytes_);
  }

  [[noreturn]] void malformed(std::string_view what) const {
    throw DatasetError("{}: no whole zip archive: {}", path_.string(), what);
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] uint64_t number(std::size_t at, std::size_t width) const {
    if (at > size() || width > size() - at) malformed("a record is cut short");
    uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) value = value << 8U | std::to_integer<uint64_t>(bytes_[at + i]);
    return value;
  }
  [[nodiscard]] std::string text(std::size_t at, std::size_t width) const {
    if (at > size() || width > size() - at) malformed("a name is cut short");
    return {reinterpret_cast<const char*>(bytes_.data()) + at, width};
  }

 private:
  std::vector<std::byte> bytes_;
  const base::Path& path_;
};

struct Directory {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t begin = 0;
};

/// The end of the central directory, which a comment may follow; of large archives the record of 64 bits before it.
Directory find_directory(const base::InputFile& file) {
  const std::size_t tail = std::min<uint64_t>(file.size(), kEndBytes + kMostComment);
  const Record end(file, file.size() - tail, tail);
  for (std::size_t back = kEndBytes; back <= tail; ++back) {
    const std::size_t at = tail - back;
    if (end.number(at, 4) != kEndMark || end.number(at + 20, 2) != back - kEndBytes) continue;
    Directory found{
        .entries = end.number(at + 10, 2), .bytes = end.number(at + 12, 4), .begin = end.number(at + 16, 4)};
    if (end.number(at + 4, 2) != 0 || end.number(at + 6, 2) != 0) end.malformed("the archive has several parts");
    const uint64_t place = file.size() - back;
    if (place < kLocatorBytes) return found;
    const Record locator(file, place - kLocatorBytes, kLocatorBytes);
    if (locator.number(0, 4) != kLocatorMark) return found;
    const Record end64(file, locator.number(8, 8), kEnd64Bytes);
    if (end64.number(0, 4) != kEnd64Mark) end64.malformed("its directory is not where it says");
    return {.entries = end64.number(32, 8), .bytes = end64.number(40, 8), .begin = end64.number(48, 8)};
  }
  end.malformed("it has no directory at its end");
}

/// The numbers of 64 bits that stand in an entry's extra field, for those of 32 bits that are all ones.
void widen(NpzMember& member, const Record& directory, std::size_t at, std::size_t bytes) {
  constexpr uint64_t kWide = 0xffffffff;
  const std::size_t end = at + bytes;
  while (at + 4 <= end) {
    const uint64_t tag = directory.number(at, 2);
    const std::size_t length = directory.number(at + 2, 2);
    at += 4;
    if (tag == 1) {
      std::size_t place = at;
      for (uint64_t* number : {&member.size, &member.packed, &member.header}) {
        if (*number != kWide) continue;
        if (place + 8 > at + length) directory.malformed("a size of 64 bits is missing");
        *number = directory.number(place, 8);
        place += 8;
      }
    }
    at += length;
  }
}

}  // namespace

void expect_zip_end(const base::InputFile& file) {
  base::read_as<DatasetError>([&] { static_cast<void>(find_directory(file)); });
}

std::vector<NpzMember> list_npz(const base::InputFile& file) {
  return base::read_as<DatasetError>([&] {
    const Directory found = find_directory(file);
    if (found.entries > kMostMembers || found.bytes > kMostDirectory) {
      throw DatasetError("{}: a directory of {} files in {} bytes, at most {} in {} are wanted", file.path().string(),
                         found.entries, found.bytes, kMostMembers, kMostDirectory);
    }
    const Record directory(file, found.begin, found.bytes);
    std::vector<NpzMember> members;
    std::size_t at = 0;
    for (uint64_t i = 0; i < found.entries; ++i) {
      if (directory.number(at, 4) != kEntryMark) directory.malformed("its directory is damaged");
      const uint64_t flags = directory.number(at + 8, 2);
      const uint64_t method = directory.number(at + 10, 2);
      NpzMember member{.name = directory.text(at + kEntryBytes, directory.number(at + 28, 2)),
                       .deflated = method == 8,
                       .crc = static_cast<uint32_t>(directory.number(at + 16, 4)),
                       .header = directory.number(at + 42, 4),
                       .packed = directory.number(at + 20, 4),
                       .size = directory.number(at + 24, 4)};
      const std::size_t extra = at + kEntryBytes + directory.number(at + 28, 2);
      widen(member, directory, extra, directory.number(at + 30, 2));
      at = extra + directory.number(at + 30, 2) + directory.number(at + 32, 2);
      if (!member.name.ends_with(".npy")) continue;
      member.name.resize(member.name.size() - 4);
      if ((flags & 1U) != 0) directory.malformed("a file in it is encrypted");
      if (method != 0 && method != 8) directory.malformed("a file in it is neither stored nor deflated");
      if (method == 0 && member.packed != member.size) directory.malformed("a stored file has two sizes");
      // Which of two is meant, programs do not agree on.
      const auto twin = std::ranges::find(members, member.name, &NpzMember::name);
      if (twin != members.end()) directory.malformed(fmt::format("two files in it are called {}.npy", member.name));
      members.push_back(std::move(member));
    }
    return members;
  });
}

/// A raw deflate stream in a part of a file.
class ArrayBytes::Inflater {
 public:
  Inflater(const base::Path& file, uint64_t begin, uint64_t end) : file_(file), begin_(begin), end_(end) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    restart();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  [[nodiscard]] uint64_t at() const { return at_; }
  void restart() {
    inflateReset(&stream_);
    stream_.avail_in = 0;
    next_ = begin_;
    at_ = 0;
    ended_ = false;
  }
  /// Up to out.size() bytes; fewer only at the end. Returns nothing for a damaged stream.
  std::optional<std::size_t> read(std::span<std::byte> out) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0 && !ended_) {
      if (stream_.avail_in == 0) refill();
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      if (status != Z_OK && status != Z_STREAM_END) return std::nullopt;
      ended_ = status == Z_STREAM_END;
    }
    const std::size_t count = out.size() - stream_.avail_out;
    at_ += count;
    return count;
  }

 private:
  void refill() {
    const auto count = std::min<uint64_t>(end_ - next_, packed_.size());
    file_.read(next_, std::span(packed_).first(count));
    next_ += count;
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_in = static_cast<uInt>(count);
  }

  base::InputFile file_;
  uint64_t begin_;
  uint64_t end_;
  uint64_t next_ = 0;
  uint64_t at_ = 0;  // unpacked
  bool ended_ = false;
  z_stream stream_ = {};
  std::vector<std::byte> packed_ = std::vector<std::byte>(kNpzPiece);
};

ArrayBytes::ArrayBytes(const base::Path& file)
    : file_(base::read_as<DatasetError>([&] { return base::InputFile(file); })),
      label_(file.string()),
      size_(file_.size()) {}

ArrayBytes::ArrayBytes(const base::Path& archive, const NpzMember& member)
    : file_(base::read_as<DatasetError>([&] { return base::InputFile(archive); })),
      label_(archive.string() + ":" + member.name),
      size_(member.size),
      has_crc_(true),
      crc_(member.crc) {
  base::read_as<DatasetError>([&] {
    const Record local(file_, member.header, kLocalBytes);
    if (local.number(0, 4) != kLocalMark) local.malformed("a file in it is not where its directory says");
    begin_ = member.header + kLocalBytes + local.number(26, 2) + local.number(28, 2);
    if (begin_ > file_.size() || member.packed > file_.size() - begin_) local.malformed("a file in it is cut short");
    if (member.deflated) inflater_ = std::make_unique<Inflater>(archive, begin_, begin_ + member.packed);
  });
}

ArrayBytes::~ArrayBytes() = default;
ArrayBytes::ArrayBytes(ArrayBytes&&) noexcept = default;
ArrayBytes& ArrayBytes::operator=(ArrayBytes&&) noexcept = default;

std::size_t ArrayBytes::read_up_to(uint64_t offset, std::span<std::byte> out) {
  return base::read_as<DatasetError>([&]() -> std::size_t {
    if (offset >= size_) return 0;
    out = out.first(std::min<uint64_t>(out.size(), size_ - offset));
    if (!inflater_) {
      file_.read(begin_ + offset, out);
      return out.size();
    }
    if (offset < inflater_->at()) inflater_->restart();
    std::vector<std::byte> dropped(std::min<uint64_t>(offset - inflater_->at(), kNpzPiece));
    std::size_t done = 0;
    while (done < out.size()) {
      const bool drops = inflater_->at() < offset;
      const auto part = drops ? std::span(dropped).first(std::min<uint64_t>(offset - inflater_->at(), kNpzPiece))
                              : out.subspan(done, std::min(out.size() - done, std::size_t{1} << 30U));
      const std::optional<std::size_t> count = inflater_->read(part);
      if (!count || *count < part.size()) {
        throw DatasetError("{}: its deflated bytes are damaged; {} are wanted unpacked", label_, size_);
      }
      if (!drops) done += *count;
    }
    return done;
  });
}

void ArrayBytes::expect_whole() {
  if (!has_crc_) return;
  uint32_t seen = 0;
  std::vector<std::byte> piece(kNpzPiece * 16);
  for (uint64_t at = 0; at < size_;) {
    const std::size_t count = read_up_to(at, piece);
    seen = static_cast<uint32_t>(crc32_z(seen, reinterpret_cast<const Bytef*>(piece.data()), count));
    at += count;
  }
  if (seen == crc_) return;
  throw DatasetError("{}: its CRC-32 is {:08x}, {:08x} was written; the file is damaged", label_, seen, crc_);
}

}  // namespace ddpm::data::prepare
