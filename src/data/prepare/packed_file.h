// A file as it is, or what a gzip file (RFC 1952) unpacks to, read from front to back in constant memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/input_file.h"

namespace ddpm::data::prepare {

using base::FileStamp;

/// Whether `path` leads to anything; throws DatasetError when that cannot be told.
bool is_there(const base::Path& path);

/// The bytes of a file on disk, read ahead by the piece. Throws OutputError.
class BufferedFile {
 public:
  explicit BufferedFile(base::Path path) : file_(std::move(path)) {}

  [[nodiscard]] const base::InputFile& file() const { return file_; }
  /// Bytes from `offset` on: at least `least`, or all that are left in the file.
  std::span<const std::byte> at(uint64_t offset, std::size_t least = 1);

 private:
  base::InputFile file_;
  std::vector<std::byte> buffer_;
  uint64_t first_ = 0;  // where the buffer's first byte lies in the file
};

/// Every function throws DatasetError with the path, or std::bad_alloc; messages say "unpacked" where it is a gzip
/// file.
class PackedFile {
 public:
  /// gzip is told by the file's first bytes, whatever its name. Refuses what is not a regular file.
  explicit PackedFile(base::Path path);
  ~PackedFile();
  PackedFile(PackedFile&&) noexcept;
  PackedFile& operator=(PackedFile&&) noexcept;

  [[nodiscard]] const base::Path& path() const { return file_.file().path(); }
  [[nodiscard]] const FileStamp& stamp() const { return file_.file().stamp(); }
  [[nodiscard]] bool packed() const { return unpacker_ != nullptr; }

  /// Fills `out` with the bytes from `offset` on; ending before is an error. Going forward in a gzip file unpacks what
  /// lies between, going back begins anew.
  void read(uint64_t offset, std::span<uint8_t> out);

  /// Refuses a file of another size than `wanted` bytes. A gzip file is unpacked for it, to its checksum, but never
  /// more than one byte beyond `wanted`.
  void expect_size(uint64_t wanted);

 private:
  class Unpacker;

  /// Reads up to out.size() bytes from where the file is; fewer only at its end.
  std::size_t read_on(std::span<uint8_t> out);
  std::size_t copy(std::span<uint8_t> out);
  void go_to(uint64_t offset);

  BufferedFile file_;
  std::unique_ptr<Unpacker> unpacker_;  // null unless it is a gzip file
  uint64_t at_ = 0;                     // position in the unpacked bytes
};

}  // namespace ddpm::data::prepare
