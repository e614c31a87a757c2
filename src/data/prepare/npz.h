// NumPy's .npz files: zip archives of .npy files, of which nothing is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/input_file.h"

namespace ddpm::data::prepare {

/// One file of the archive.
struct NpzMember {
  std::string name;  ///< without ".npy"
  bool deflated = false;
  uint32_t crc = 0;     ///< CRC-32 of its bytes
  uint64_t header = 0;  ///< where its local header lies
  uint64_t packed = 0;  ///< bytes in the archive
  uint64_t size = 0;    ///< bytes unpacked
};

/// Throws DatasetError unless the file ends as a zip archive does, with the directory of what it holds. One that was
/// cut between two files has none.
void expect_zip_end(const base::InputFile& file);

/// The archive's .npy files, in its order. Encrypted files, archives in several parts, and methods other than "stored"
/// and "deflated" are refused. Throws DatasetError.
std::vector<NpzMember> list_npz(const base::InputFile& file);

/// The bytes of a .npy file, by itself or in an archive. Those of a deflated member come from front to back: going back
/// unpacks it anew. For one thread. Throws DatasetError with its name.
class ArrayBytes {
 public:
  explicit ArrayBytes(const base::Path& file);
  ArrayBytes(const base::Path& archive, const NpzMember& member);
  ~ArrayBytes();
  ArrayBytes(ArrayBytes&&) noexcept;
  ArrayBytes& operator=(ArrayBytes&&) noexcept;

  /// "FILE", or "FILE:name" of a member.
  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] const base::InputFile& file() const { return file_; }
  [[nodiscard]] uint64_t size() const { return size_; }
  /// Fills `out` as far as there are bytes from `offset` on, and returns their number.
  std::size_t read_up_to(uint64_t offset, std::span<std::byte> out);
  /// Reads a member from front to back, and compares its CRC-32. A file by itself has none.
  void expect_whole();

 private:
  class Inflater;

  base::InputFile file_;
  std::string label_;
  uint64_t begin_ = 0;  // in the file
  uint64_t size_ = 0;
  bool has_crc_ = false;
  uint32_t crc_ = 0;
  std::unique_ptr<Inflater> inflater_;  // unpacks a deflated member; null for stored ones
};

}  // namespace ddpm::data::prepare
