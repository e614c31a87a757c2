// A file descriptor of this process.
#pragma once

#include <filesystem>

namespace ddpm::base {

/// Raises this process's limit of open files to the most that it may have: many shards are many open files, and the
/// limit that shells set is for programs that use select(2). Does nothing where that is not allowed.
void allow_many_open_files();

/// Owns a file descriptor. Move-only. close() reports errors, the destructor does not.
class Descriptor {
 public:
  /// open(2) with these flags and O_CLOEXEC; a file that O_CREAT makes gets mode 0666, less the user's umask. An open
  /// that creates nothing is retried (base/file_retry.h). Throws as throw_file_error() does: "PATH: cannot OPERATION".
  Descriptor(const std::filesystem::path& path, int flags, const char* operation);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return value_; }
  /// The result of close(2). Whatever it is, the descriptor is gone: a second close could hit somebody else's file.
  int close();

 private:
  int value_;
};

}  // namespace ddpm::base
