// A file as it is, or what a gzip file (RFC 1952) unpacks to, read from front to back in constant memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/file_system.h"

namespace ddpm::data::prepare {

/// Which state of a file was seen: after a change, size or time are others.
struct FileStamp {
  int64_t size = 0;     ///< bytes on disk
  int64_t seconds = 0;  ///< of the last change
  int64_t nanoseconds = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Every function throws DatasetError with the path; messages say "unpacked" where it is a gzip file.
class PackedFile {
 public:
  /// gzip is told by the file's first bytes, whatever its name. Refuses what is not a regular file.
  explicit PackedFile(base::Path path);

  [[nodiscard]] const base::Path& path() const { return path_; }
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
  [[nodiscard]] bool packed() const { return packed_; }

  /// Fills `out` with the bytes from `offset` on; ending before is an error. Going forward in a gzip file unpacks what
  /// lies between, going back begins anew.
  void read(uint64_t offset, std::span<uint8_t> out);

  /// Refuses a file of another size than `wanted` bytes. A gzip file is unpacked for it, to its checksum, but never
  /// more than one byte beyond `wanted`.
  void expect_size(uint64_t wanted);

 private:
  struct Close {
    void operator()(void* file) const;
  };

  /// Reads up to out.size() bytes from where the file is.
  std::size_t read_on(std::span<uint8_t> out);
  void go_to(uint64_t offset);

  base::Path path_;
  FileStamp stamp_;
  bool packed_ = false;
  uint64_t at_ = 0;
  std::unique_ptr<void, Close> file_;  // zlib's gzFile
};

}  // namespace ddpm::data::prepare
