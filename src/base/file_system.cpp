#include "base/file_system.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/file_error.h"
#include "base/file_retry.h"
#include "base/input_file.h"
#include "base/pulse.h"

namespace ddpm::base {
namespace {

constexpr mode_t kDirectoryMode = 0777;  // less the user's umask
constexpr const char* kStaged = "tmp";
constexpr const char* kDisplaced = "old";

[[noreturn]] void fail(const char* operation, const Path& path, int code) { throw_file_error(path, operation, code); }

[[noreturn]] void fail(const char* operation, const Path& path, const std::error_code& error) {
  fail(operation, path, error.value());
}

void require(int status, const char* operation, const Path& path) {
  if (status != 0) fail(operation, path, errno);
}

/// Reads on to the end of the file; false when the file server has forgotten the open file and it is to be opened
/// again.
bool read_rest(const Descriptor& file, const Path& path, uint64_t max_bytes, Retries& retries, std::string& text) {
  std::vector<char> piece(1U << 16U);
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0) {
      const int code = errno;
      if (!retries.again(code)) fail("read", path, code);
      if (code == ESTALE) return false;
      continue;
    }
    if (count == 0) return true;
    text.append(piece.data(), static_cast<std::size_t>(count));
    pulse();
    if (text.size() > max_bytes) {
      throw TooLargeError("{}: cannot read: more than the {} bytes that such a file may have", path.string(),
                          max_bytes);
    }
  }
}

class PosixFile : public WritableFile {
 public:
  /// What lies there already must be a regular file: O_NONBLOCK lets the open of a pipe return.
  PosixFile(Path path, int flags, const char* operation)
      : path_(std::move(path)), file_(path_, O_WRONLY | O_NONBLOCK | flags, operation) {
    struct stat status {};
    require(::fstat(file_.get(), &status), "examine", path_);
    if (!S_ISREG(status.st_mode)) throw OutputError("{}: not a regular file", path_.string());
  }

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("write", path_, errno);
      if (count == 0) fail("write", path_, EIO);  // no progress and no reason: some network file systems
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      pulse();
    }
  }
  void sync() override { require(::fsync(file_.get()), "sync", path_); }
  void truncate(uint64_t size) override {
    const auto offset = static_cast<off_t>(size);
    require(::ftruncate(file_.get(), offset), "truncate", path_);
    if (::lseek(file_.get(), offset, SEEK_SET) != offset) fail("seek", path_, errno);
  }
  void close() override { require(file_.close(), "close", path_); }

 private:
  Path path_;
  Descriptor file_;
};

class PosixFileSystem : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create_exclusive(const Path& path) override {
    return std::make_unique<PosixFile>(path, O_CREAT | O_EXCL, "create");
  }
  std::unique_ptr<WritableFile> open_append(const Path& path) override {
    return std::make_unique<PosixFile>(path, O_CREAT | O_APPEND, "open for appending");
  }
  void sync_file(const Path& path) override { sync(path, O_RDONLY | O_NONBLOCK); }
  void sync_directory(const Path& path) override { sync(path, O_RDONLY | O_DIRECTORY); }
  void create_directory(const Path& path) override {
    require(::mkdir(path.c_str(), kDirectoryMode), "create the directory", path);
  }
  void create_directories(const Path& path) override {
    std::vector<Path> missing;
    for (Path folder = plain_path(path); !exists(folder); folder = parent_of(folder)) missing.push_back(folder);
    for (; !missing.empty(); missing.pop_back()) {
      // Another process may be making the same folders.
      if (::mkdir(missing.back().c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
        fail("create the directory", missing.back(), errno);
      }
      // Where folders may be made but not listed, nothing can be opened to be synchronised.
      const Path parent = parent_of(missing.back());
      if (::access(parent.c_str(), R_OK) == 0) sync_directory(parent);
    }
    if (kind_of(path) != FileKind::folder) fail("create the directory", path, ENOTDIR);
  }
  void rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      const int code = errno;
      throw OutputError("{}: cannot rename to {}: {}", from.string(), to.string(), std::strerror(code));
    }
  }
  void remove(const Path& path) override { require(std::remove(path.c_str()), "remove", path); }
  void remove_all(const Path& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) fail("remove", path, error);
  }

  [[nodiscard]] bool exists(const Path& path) const override {
    struct stat status {};
    if (with_retries([&] { return ::lstat(path.c_str(), &status); }) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    fail("examine", path, errno);
  }
  [[nodiscard]] std::string read(const Path& path, uint64_t max_bytes) const override {
    Retries retries;
    for (;;) {
      // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever; with it, the pipe reads as empty.
      const Descriptor file(path, O_RDONLY | O_NONBLOCK, "open");
      require(::fcntl(file.get(), F_SETFL, 0), "open", path);
      std::string text;
      if (read_rest(file, path, max_bytes, retries, text)) return text;
    }
  }
  [[nodiscard]] uint64_t file_size(const Path& path) const override {
    struct stat status {};
    require(with_retries([&] { return ::stat(path.c_str(), &status); }), "get the size", path);
    if (!S_ISREG(status.st_mode)) throw OutputError("{}: not a regular file", path.string());
    return static_cast<uint64_t>(status.st_size);
  }
  [[nodiscard]] std::vector<std::string> list(const Path& path) const override {
    std::vector<std::string> names;
    for (FolderEntry& entry : folder_entries(path)) names.push_back(std::move(entry.name));
    return names;
  }
  [[nodiscard]] uint64_t free_bytes(const Path& path) const override {
    struct statvfs status {};
    require(with_retries([&] { return ::statvfs(path.c_str(), &status); }), "get the free space", path);
    return uint64_t{status.f_bavail} * uint64_t{status.f_frsize};
  }

 private:
  static void sync(const Path& path, int flags) {
    Descriptor file(path, flags, "open");
    require(::fsync(file.get()), "sync", path);
    require(file.close(), "close", path);
  }
};

/// Removes what nobody needs; returns the error by which it could not be.
std::string error_of_removing(FileSystem& files, const Path& path) {
  try {
    files.remove_all(path);
    return {};
  } catch (const OutputError& error) {
    return error.what();
  }
}

/// Removes a folder that `target` has displaced. It gets the name of something unfinished first: what is left when
/// only half of it can be removed is never given the name of `target` back.
std::string error_of_removing_displaced(FileSystem& files, const Path& displaced, const Path& target) {
  const Path doomed = temporary_beside(target);
  try {
    files.rename(displaced, doomed);
  } catch (const OutputError& error) {
    return error.what();
  }
  return error_of_removing(files, doomed);
}

}  // namespace

std::unique_ptr<FileSystem> posix_file_system() { return std::make_unique<PosixFileSystem>(); }

Path plain_path(const Path& path) {
  const Path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

Path parent_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

Path nearest_existing(const FileSystem& files, const Path& path) {
  Path found = plain_path(path);
  while (!files.exists(found) && found != parent_of(found)) found = parent_of(found);
  return found;
}

Path hidden_beside(const Path& path, std::string_view kind) {
  std::random_device entropy;
  return path.parent_path() / fmt::format(".{}.{}-{:08x}{:08x}", path.filename().string(), kind, entropy(), entropy());
}

Path temporary_beside(const Path& path) { return hidden_beside(path, kStaged); }

void write_new_file(FileSystem& files, const Path& path, std::string_view text) {
  const std::unique_ptr<WritableFile> file = files.create_exclusive(path);
  file->write(text);
  file->sync();
  file->close();
}

void publish(FileSystem& files, const Path& made, const Path& target) {
  files.rename(made, target);
  files.sync_directory(parent_of(target));
}

bool publish_over(FileSystem& files, const Path& made, const Path& target, const Path& displaced) {
  const bool replaces = files.exists(target);
  if (replaces) publish(files, target, displaced);
  publish(files, made, target);
  return replaces;
}

StagedPath::StagedPath(FileSystem& files, Path target)
    : files_(files), target_(std::move(target)), staged_(temporary_beside(target_)), unfinished_(files, staged_) {}

StagedPath::~StagedPath() {
  if (published_) return;
  try {
    files_.remove_all(staged_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the failure that led here is being reported
  }
}

void StagedPath::publish() {
  base::publish(files_, staged_, target_);
  published_ = true;
}

void StagedPath::publish_over() {
  const Path displaced = hidden_beside(target_, kDisplaced);
  const bool replaces = base::publish_over(files_, staged_, target_, displaced);
  published_ = true;
  if (replaces) static_cast<void>(error_of_removing_displaced(files_, displaced, target_));
}

void write_staged(FileSystem& files, const Path& target, const std::function<void(WritableFile& file)>& write) {
  StagedPath staged(files, target);
  const std::unique_ptr<WritableFile> file = files.create_exclusive(staged.path());
  write(*file);
  file->sync();
  file->close();
  staged.publish();
}

std::vector<std::string> remove_leftovers(FileSystem& files, const Path& target) {
  const Path folder = parent_of(target);
  const std::string staged = fmt::format(".{}.{}-", target.filename().string(), kStaged);
  const std::string displaced = fmt::format(".{}.{}-", target.filename().string(), kDisplaced);
  std::vector<std::string> errors;
  for (const std::string& name : files.list(folder)) {
    std::string error;
    if (name.starts_with(displaced) && !files.exists(target)) {
      publish(files, folder / name, target);
    } else if (name.starts_with(displaced)) {
      error = error_of_removing_displaced(files, folder / name, target);
    } else if (name.starts_with(staged)) {
      error = error_of_removing(files, folder / name);
    }
    if (!error.empty()) errors.push_back(std::move(error));
  }
  return errors;
}

std::vector<std::string> discard(FileSystem& files, const Path& path) {
  if (!error_of_removing(files, path).empty()) files.rename(path, temporary_beside(path));
  return remove_leftovers(files, path);
}

void remove_leftovers_in(FileSystem& files, const Path& folder) {
  const std::string staged = fmt::format(".{}-", kStaged);
  for (const std::string& name : files.list(folder)) {
    if (name.starts_with('.') && name.find(staged) != std::string::npos) files.remove_all(folder / name);
  }
}

void write_atomically(FileSystem& files, const Path& path, std::string_view text) {
  write_staged(files, path, [text](WritableFile& file) { file.write(text); });
}

}  // namespace ddpm::base
