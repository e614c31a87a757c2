// An archive, tar or zip, read by libarchive from front to back. Nothing is written to disk: names and links in it are
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "base/input_file.h"

namespace ddpm::data::prepare {

struct ArchiveEntry {
  std::string name;      ///< without "./" and "/" at its beginning
  int64_t size = 0;      ///< in bytes, as the archive says; -1: it does not say
  bool regular = false;  ///< a file by itself: neither a folder, a link, a device, nor one with holes
  bool encrypted = false;
};

/// Every function throws DatasetError that names the archive; DatasetAccessError where the machine fails.
class ArchiveFile {
 public:
  /// tar (also packed with gzip, bzip2, xz, Zstandard or LZ4) or zip, told by its content.
  explicit ArchiveFile(base::Path path);
  ~ArchiveFile();
  ArchiveFile(ArchiveFile&&) noexcept;
  ArchiveFile& operator=(ArchiveFile&&) noexcept;

  [[nodiscard]] const base::Path& path() const;
  [[nodiscard]] const base::FileStamp& stamp() const;

  /// The next entry, or nothing at the end.
  std::optional<ArchiveEntry> next();
  /// Where the header of the entry that next() gave begins, in the unpacked bytes; after the last one, where they end.
  [[nodiscard]] uint64_t position() const;
  /// Whether it is a tar file that is not packed: the bytes of an entry end, padded to 512, where the next one's header
  /// begins. Known after next().
  [[nodiscard]] bool is_plain_tar() const;
  /// The bytes of the entry, or nothing where they are more than `max_bytes`. Once for each entry.
  std::optional<std::string> read(uint64_t max_bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether a file that begins with these bytes is an archive that is not packed as a whole.
bool looks_like_archive(std::string_view bytes);
/// Bytes that looks_like_archive() wants.
inline constexpr std::size_t kArchiveSign = 512;
/// Whether a SOURCE of this name is an archive: .tar, .tgz, .tar.gz, .tar.zst, .zip ...
bool is_archive_name(const base::Path& path);

}  // namespace ddpm::data::prepare
