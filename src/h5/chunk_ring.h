// Values of chunks in memory that all ranks of a host may share: what one has unpacked, the others need not unpack
// again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "h5/box.h"

namespace ddpm::h5 {

/// What tells a chunk from all others that are in a ring.
struct ChunkKey {
  uint64_t file = 0;    ///< its number
  uint64_t offset = 0;  ///< in the file
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

/// A ring of values, in the order in which they came: the oldest make room. Processes and threads use it at the same
/// time, each with an object of its own over the same memory. One at a time writes, and first moves the ring's end on;
/// who has read looks afterwards whether the end has come around meanwhile, in which case the values count as not
/// there.
class ChunkRing {
 public:
  /// `memory` lives longer. Its first head_bytes() bytes were zero before anyone used it.
  explicit ChunkRing(std::span<std::byte> memory);
  static constexpr std::size_t head_bytes() { return sizeof(Head); }

  /// Copies lines of a chunk's values. False where they are not there; then `out` may hold anything.
  bool read(const ChunkKey& key, std::span<const Line> lines, std::span<std::byte> out) const;
  /// Keeps the values of a chunk, unless they would fill more than a quarter of the ring, or others write for long.
  void put(const ChunkKey& key, std::span<const std::byte> values);

 private:
  static constexpr std::size_t kPlaces = std::size_t{1} << 16U;
  struct Head {
    std::atomic<uint64_t> writing{0};         // 1 while somebody writes
    std::atomic<uint64_t> end{0};             // bytes that were ever given out
    std::atomic<uint64_t> places[kPlaces]{};  // NOLINT(modernize-avoid-c-arrays): by hash; where an entry is, plus 1
  };
  /// Stands before the values.
  struct ChunkHeader {
    ChunkKey key = {};
    uint64_t bytes = 0;
  };
  [[nodiscard]] std::atomic<uint64_t>& place_of(const ChunkKey& key) const;

  Head* head_;
  std::span<std::byte> ring_;
};

}  // namespace ddpm::h5
