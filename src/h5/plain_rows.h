// Inside src/h5 only: the values of an array that lies in the file in one piece, without HDF5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "h5/box.h"
#include "h5/digests.h"
#include "h5/lazy_file.h"

namespace ddpm::h5 {

/// How such an array is stored.
struct PlainLayout {
  Extent values = {};
  std::size_t element_bytes = 0;
  bool turned = false;  ///< whether the bytes of an element lie the other way round in memory
};

/// Reverses the bytes of each element.
void turn_bytes(std::span<std::byte> values, std::size_t element_bytes);

/// Reads such an array. Threads take turns.
class PlainRows {
 public:
  /// `label` is for messages. What is read is compared with `digests`, which live longer, where these are not null.
  PlainRows(std::shared_ptr<LazyFile> file, std::string label, const PlainLayout& layout, const Digests* digests);

  /// Reads the bytes from `begin` of the values on. Throws DatasetError, and its DatasetAccessError when the machine
  /// fails.
  void read(uint64_t begin, std::span<std::byte> out);
  /// Reads lines, which come in the order of the file. Near ones are read together, with what lies between them. The
  /// kernel is told of all of them first, so that a disk has many requests at a time.
  void read_lines(std::span<const Line> lines, std::span<std::byte> out);
  [[nodiscard]] const PlainLayout& layout() const { return layout_; }

 private:
  void announce(std::span<const std::span<const Line>> groups);
  /// Fills `out` with the values' bytes from `begin` on, turned where they have to be.
  void read_locked(uint64_t begin, std::span<std::byte> out);
  /// Fills `out` with the bytes at `offset` of the file, after the blocks around them were compared with their digests.
  void read_compared(uint64_t offset, std::span<std::byte> out);

  std::shared_ptr<LazyFile> file_;
  std::string label_;
  PlainLayout layout_;
  const Digests* digests_;
  std::mutex mutex_;
  std::vector<std::byte> block_;  // one that is wanted in part
  std::vector<std::byte> near_;   // lines that are read together
};

}  // namespace ddpm::h5
