// What the bytes of arrays in a file must be: a CRC-32C for each chunk, or for each block of an array without chunks.
// The digests lie beside the file, whose writer knows nothing of them (data/adopted_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ddpm::h5 {

/// Neighbouring bytes of a file.
struct Extent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// A chunk, or the values of an array without chunks, cut into blocks of `block` bytes, the last one shorter.
struct DigestRun {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t first = 0;   ///< number of its first digest
  uint64_t number = 0;  ///< number of the chunk within its array
  uint32_t block = 0;
  uint32_t array = 0;  ///< number of the array in the file
};

class Digests {
 public:
  /// Views of what lives longer. Throws DatasetError "SUBJECT: ..." unless the runs, in the order of their places, do
  /// not overlap, end within `file_bytes`, and have all of `sums`, in their order.
  Digests(std::span<const DigestRun> runs, std::span<const uint32_t> sums, uint64_t file_bytes,
          std::string_view subject);

  /// Whether a run holds the byte at `offset`.
  [[nodiscard]] bool holds(uint64_t offset) const;
  /// Returns `wanted`, which lies in a run, with the rest of the blocks that it touches.
  [[nodiscard]] Extent whole_blocks(Extent wanted, std::string_view subject) const;
  /// Throws DatasetError "SUBJECT: ..." unless `bytes`, which are whole blocks of a run and were read from `offset` on,
  /// have its digests.
  void compare(uint64_t offset, std::span<const std::byte> bytes, std::string_view subject) const;

  [[nodiscard]] std::span<const DigestRun> runs() const { return runs_; }
  [[nodiscard]] std::span<const uint32_t> sums() const { return sums_; }

 private:
  /// The run that holds all of `wanted`.
  [[nodiscard]] const DigestRun& run_of(Extent wanted, std::string_view subject) const;

  std::span<const DigestRun> runs_;
  std::span<const uint32_t> sums_;
};

/// Number of digests of a run.
[[nodiscard]] inline uint64_t digests_of(const DigestRun& run) { return (run.bytes + run.block - 1) / run.block; }

}  // namespace ddpm::h5
