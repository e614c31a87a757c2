// Reading files, and looking at what a path leads to, in one place: a failure that may pass is retried
// (base/file_retry.h), and an error of the machine is told from a statement about the file (base/file_error.h).
//
// Every function throws OutputError, or its AccessError; read_as() turns them into the reader's own error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/file_error.h"

namespace ddpm::base {

/// Tells which state of a file was seen: a change alters its size or time.
struct FileStamp {
  int64_t size = 0;     ///< bytes on disk
  int64_t seconds = 0;  ///< when the file last changed, since 1970
  int64_t nanoseconds = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

enum class FileKind : uint8_t { absent, regular, folder, other };

/// Device and inode: no two files that exist at one time share them, and an open file's are not given to another.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct FileFacts {
  FileKind kind = FileKind::absent;
  FileStamp stamp;
  FileIdentity identity;  ///< which file it is, whatever path leads to it
};

/// What `path` leads to, links followed. A path that leads nowhere, or in a circle, is absent. Throws when the path
/// cannot be examined.
FileFacts look_at(const std::filesystem::path& path);
/// Returns only the kind of what `path` leads to.
FileKind kind_of(const std::filesystem::path& path);
/// Whether `path` leads to anything.
bool is_there(const std::filesystem::path& path);
/// What the symbolic link `path` says, whether or not anything lies there; none where `path` is not a link.
std::optional<std::filesystem::path> link_target(const std::filesystem::path& path);

struct FolderEntry {
  std::string name;
  std::optional<FileKind> kind;  ///< none: a link, or the file system does not say; look_at() does
};

/// What lies in a folder, without "." and "..", in bytewise order of the names. A listing that fails halfway throws.
std::vector<FolderEntry> folder_entries(const std::filesystem::path& path);

/// A regular file, open for reading, from which several threads may read at a time.
class InputFile {
 public:
  /// Refuses what is not a regular file. It does not wait for a pipe.
  explicit InputFile(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The file's identity, size and times when it was opened.
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
  [[nodiscard]] uint64_t size() const { return static_cast<uint64_t>(stamp_.size); }

  /// Reads from byte `offset` on until `out` is full or the file ends; returns the number of bytes.
  std::size_t read_up_to(uint64_t offset, std::span<std::byte> out) const;
  /// Fills `out`. A file that ends before throws OutputError.
  void read(uint64_t offset, std::span<std::byte> out) const;
  /// Tells the kernel that these bytes will be read soon. Some file systems ignore it.
  void announce(uint64_t offset, uint64_t bytes) const;
  /// Asks the kernel to drop the file's pages that were written back already. Some file systems have no cache and
  /// ignore it.
  void forget_pages() const;

 private:
  void open_again() const;

  std::filesystem::path path_;
  Descriptor descriptor_;  // refers to another open file after ESTALE
  FileStamp stamp_;
};

}  // namespace ddpm::base
