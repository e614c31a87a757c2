#include "base/input_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_retry.h"
#include "base/pulse.h"

namespace ddpm::base {
namespace {

using Path = std::filesystem::path;

FileKind kind_of_mode(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::regular;
  return S_ISDIR(mode) ? FileKind::folder : FileKind::other;
}

FileStamp stamp_of(const struct stat& status) {
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

/// The stamp of an open file, which must be a regular one.
FileStamp stamp_of_regular(const Descriptor& file, const Path& path) {
  struct stat status {};
  if (with_retries([&] { return ::fstat(file.get(), &status); }) != 0) throw_file_error(path, "examine", errno);
  if (!S_ISREG(status.st_mode)) throw OutputError("{}: not a regular file", path.string());
  return stamp_of(status);
}

Descriptor open_to_read(const Path& path) { return {path, O_RDONLY | O_NONBLOCK, "open"}; }

std::optional<FileKind> kind_of_entry(const dirent64& entry) {
  switch (entry.d_type) {
    case DT_REG:
      return FileKind::regular;
    case DT_DIR:
      return FileKind::folder;
    case DT_LNK:
    case DT_UNKNOWN:
      return std::nullopt;
    default:
      return FileKind::other;
  }
}

/// 0, or the code of the call that failed; `found` is then to be thrown away. By the system call itself, since
/// readdir() takes a folder that goes away (ENOENT) for one that has ended.
int list_once(const Path& path, std::vector<FolderEntry>& found) {
  found.clear();
  const Descriptor folder(path, O_RDONLY | O_DIRECTORY, "list");
  constexpr std::size_t kBytes = std::size_t{32} << 10U;
  alignas(dirent64) std::array<char, kBytes> entries{};
  for (;;) {
    const ssize_t count = ::getdents64(folder.get(), entries.data(), entries.size());
    if (count < 0) return errno;
    if (count == 0) return 0;
    for (std::size_t at = 0; at < static_cast<std::size_t>(count);) {
      const auto& entry = *reinterpret_cast<const dirent64*>(&entries.at(at));
      const std::string name = entry.d_name;  // NOLINT(cppcoreguidelines-pro-bounds-array-to-pointer-decay)
      if (name != "." && name != "..") found.push_back({name, kind_of_entry(entry)});
      at += entry.d_reclen;
      pulse();
    }
  }
}

}  // namespace

FileFacts look_at(const Path& path) {
  struct stat status {};
  if (with_retries([&] { return ::stat(path.c_str(), &status); }) == 0) {
    pulse();
    return {kind_of_mode(status.st_mode), stamp_of(status), {.device = status.st_dev, .inode = status.st_ino}};
  }
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return {};
  throw_file_error(path, "examine", errno);
}

FileKind kind_of(const Path& path) { return look_at(path).kind; }

std::optional<std::filesystem::path> link_target(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path target = std::filesystem::read_symlink(path, error);
  return error ? std::nullopt : std::optional(std::move(target));
}

bool is_there(const Path& path) { return kind_of(path) != FileKind::absent; }

std::vector<FolderEntry> folder_entries(const Path& path) {
  std::vector<FolderEntry> found;
  Retries retries;
  for (;;) {
    const int code = list_once(path, found);
    if (code == 0) break;
    if (!retries.again(code)) throw_file_error(path, "list", code);
  }
  std::ranges::sort(found, {}, &FolderEntry::name);
  return found;
}

InputFile::InputFile(Path path)
    : path_(std::move(path)), descriptor_(open_to_read(path_)), stamp_(stamp_of_regular(descriptor_, path_)) {}

/// A file server that was restarted may have forgotten the open file; under its path it is found again. The descriptor
/// keeps its number, since other threads may be reading from it.
void InputFile::open_again() const {
  Descriptor again = open_to_read(path_);
  if (stamp_of_regular(again, path_) != stamp_) throw AccessError("{}: changed while it was read", path_.string());
  if (::dup3(again.get(), descriptor_.get(), O_CLOEXEC) < 0) throw_file_error(path_, "open", errno);
}

std::size_t InputFile::read_up_to(uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  Retries retries;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(descriptor_.get(), &out[done], out.size() - done, static_cast<off_t>(offset + uint64_t{done}));
    if (count == 0) break;
    if (count > 0) {
      done += static_cast<std::size_t>(count);
      pulse();
      continue;
    }
    const int code = errno;
    if (!retries.again(code)) throw_file_error(path_, "read", code);
    if (code == ESTALE) open_again();
  }
  return done;
}

void InputFile::read(uint64_t offset, std::span<std::byte> out) const {
  const std::size_t count = read_up_to(offset, out);
  if (count == out.size()) return;
  throw OutputError("{}: ends at byte {}: it shrank while open", path_.string(), offset + count);
}

void InputFile::announce(uint64_t offset, uint64_t bytes) const {
  (void)::posix_fadvise(descriptor_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

void InputFile::forget_pages() const { (void)::posix_fadvise(descriptor_.get(), 0, 0, POSIX_FADV_DONTNEED); }

}  // namespace ddpm::base
