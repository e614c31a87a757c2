// The only code that creates, syncs, renames and removes files. HDF5 and image encoders write into temporary files that
// were created here. Passed in everywhere, so that a test double can drop unsynced data or fail the n-th call.
//
// Every function throws OutputError with path, operation and errno's text; what reads is retried (base/file_retry.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddpm::base {

using Path = std::filesystem::path;

/// A file open for writing. `close` reports errors; the destructor closes silently.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Writes all bytes (short writes are continued) or throws.
  virtual void write(std::span<const std::byte> bytes) = 0;
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// fsync: on return the bytes are on disk.
  virtual void sync() = 0;
  /// Cuts the file to `size` bytes; further writes continue from there.
  virtual void truncate(uint64_t size) = 0;
  virtual void close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Creates a new file (O_CREAT | O_EXCL); an existing one is an error.
  virtual std::unique_ptr<WritableFile> create_exclusive(const Path& path) = 0;
  /// Opens for appending, creating it when absent.
  virtual std::unique_ptr<WritableFile> open_append(const Path& path) = 0;
  /// fsync of an existing file (one that HDF5 or an image encoder wrote).
  virtual void sync_file(const Path& path) = 0;
  /// fsync of a directory: on return its entries (creations, renames) are on disk.
  virtual void sync_directory(const Path& path) = 0;
  /// Creates one directory; an existing one is an error.
  virtual void create_directory(const Path& path) = 0;
  /// Creates a directory and its missing parents; on return the entries of those that were missing are on disk.
  virtual void create_directories(const Path& path) = 0;
  /// rename(2): replaces `to` atomically.
  virtual void rename(const Path& from, const Path& to) = 0;
  virtual void remove(const Path& path) = 0;
  /// Removes a directory tree; does nothing when it is absent.
  virtual void remove_all(const Path& path) = 0;

  [[nodiscard]] virtual bool exists(const Path& path) const = 0;
  /// Reads a whole file of at most `max_bytes`; a larger one throws TooLargeError.
  [[nodiscard]] virtual std::string read(const Path& path, uint64_t max_bytes) const = 0;
  [[nodiscard]] virtual uint64_t file_size(const Path& path) const = 0;
  /// Names (not paths) in a directory, sorted bytewise.
  [[nodiscard]] virtual std::vector<std::string> list(const Path& path) const = 0;
  /// Bytes that this user may still write on the file system of `path`.
  [[nodiscard]] virtual uint64_t free_bytes(const Path& path) const = 0;
};

/// The file system of the operating system.
std::unique_ptr<FileSystem> posix_file_system();

/// "a/b" for "a/./b/": without the slash at its end, a path has the parent and the name that it seems to have.
Path plain_path(const Path& path);
/// The folder that `path` lies in: "." for a bare name.
Path parent_of(const Path& path);
/// Returns `path`, or its nearest parent that exists, in which a missing one would be made.
Path nearest_existing(const FileSystem& files, const Path& path);
/// A hidden name in the folder of `path`, ".NAME.KIND-<id>". It has a random part, so that two writers of one path
/// never share it, and what a crash leaves under it disturbs nobody.
Path hidden_beside(const Path& path, std::string_view kind);
/// Returns the hidden name under which `path` is made, in its own folder, before it is renamed.
Path temporary_beside(const Path& path);

/// Writes a file that is new; on return its text is on disk.
void write_new_file(FileSystem& files, const Path& path, std::string_view text);
/// Renames `made`, which must be on disk, to `target`, and syncs the folder around it. A file at `target` is replaced;
/// a folder is replaced only if it is empty.
void publish(FileSystem& files, const Path& made, const Path& target);
/// Publishes the folder `made` also where `target` is a folder that is not empty: that one gets the name `displaced`
/// first, and is for the caller to remove. Returns whether there was one.
[[nodiscard]] bool publish_over(FileSystem& files, const Path& made, const Path& target, const Path& displaced);

/// Registers a file or folder of this process that is not finished, for as long as it lives. Nothing needs to lie at
/// `path` yet, or any more. `files` outlives it.
class Unfinished {
 public:
  Unfinished(FileSystem& files, Path path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  uint64_t id_ = 0;
};
/// Removes all that is registered, also folders into which another thread still writes; gives up after 2 s. For a
/// process that ends now: any thread may call it, errors are passed over, and nothing can be added or given up then.
void remove_unfinished();

/// A file or folder that is made under a hidden name, path(), and appears under its own whole or not at all: publish()
/// renames it, and the destructor removes what was not published. Until then it is Unfinished.
class StagedPath {
 public:
  StagedPath(FileSystem& files, Path target);
  ~StagedPath();
  StagedPath(const StagedPath&) = delete;
  StagedPath& operator=(const StagedPath&) = delete;

  [[nodiscard]] const Path& path() const { return staged_; }
  /// Publishes it (base::publish). What the file or folder holds must be on disk.
  void publish();
  /// Publishes a folder, which replaces one that is not empty (base::publish_over). Where that one cannot be removed,
  /// it stays under a hidden name until remove_leftovers() can.
  void publish_over();

 private:
  FileSystem& files_;
  Path target_;
  Path staged_;
  Unfinished unfinished_;
  bool published_ = false;
};

/// Makes a file that `write` fills, by way of a StagedPath; what lies at `target` is replaced once the new one is on
/// disk.
void write_staged(FileSystem& files, const Path& target, const std::function<void(WritableFile& file)>& write);
/// Removes what dead writers of `target` have left beside it, under the names that StagedPath gives. Where one died
/// between displacing `target` and replacing it, what it had displaced gets its name back. Nobody else may be writing
/// it (base/sole_writer.h, or the lock of a folder around it). Returns an error for each that cannot be removed: hidden
/// as it is, it disturbs nobody, and the next call tries again.
std::vector<std::string> remove_leftovers(FileSystem& files, const Path& target);
/// Removes `path`, which nobody needs any more, and what dead writers have left beside it. Where it cannot be removed,
/// it gives up its name for a hidden one, or throws if it cannot do that either. Returns as remove_leftovers() does.
[[nodiscard]] std::vector<std::string> discard(FileSystem& files, const Path& path);
/// Removes what dead writers of anything in `folder` have left unfinished there. Nobody may be writing in it.
void remove_leftovers_in(FileSystem& files, const Path& folder);

/// Replaces `path` so that after any crash it holds either the old or the new text whole.
void write_atomically(FileSystem& files, const Path& path, std::string_view text);

}  // namespace ddpm::base
