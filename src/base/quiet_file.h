// A file that is written at any places, for libraries that do not survive a failed write: what failed is remembered
// here, and asked for afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace ddpm::base {

/// Writes always seem to succeed. After the first one that fails the file gets no further bytes: it is worthless, and
/// failure() says why. For one thread at a time.
class QuietFile {
 public:
  /// Opens a file that exists, and empties it. Throws as throw_file_error() does.
  explicit QuietFile(const std::filesystem::path& path);

  /// Fills `out` with the bytes from `offset` on; beyond the end of the file, and where it cannot be read, with zeros.
  void read(uint64_t offset, std::span<std::byte> out);
  void write(uint64_t offset, std::span<const std::byte> in);
  void resize(uint64_t size);
  /// The size that the file would have if no write had failed.
  [[nodiscard]] uint64_t size() const { return size_; }
  /// Closes the file; a failure counts like that of a write.
  void close();
  /// Why a call failed, as the system says it; "" while none has.
  [[nodiscard]] std::string failure() const;

 private:
  void note_failure();

  Descriptor descriptor_;
  uint64_t size_ = 0;
  int error_ = 0;  ///< errno of the first failure
};

}  // namespace ddpm::base
