// Where the values of a snapshot lie in pinned memory. No LibTorch here: plans count it, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/round_up.h"
#include "device/pinned_memory.h"

namespace ddpm::run {

/// Slices one after the other in few blocks. Pinned memory of its own for each slice would be half as much again:
/// LibTorch rounds up to powers of two, and a 3 × 3 kernel of 2ⁿ channels has nine times such a number.
class SnapshotBlocks {
 public:
  struct Place {
    std::size_t block = 0;
    int64_t offset = 0;  ///< in bytes
  };

  explicit SnapshotBlocks(std::span<const int64_t> bytes_of_slices) {
    constexpr int64_t kAlignment = 64;
    int64_t largest = 0;
    for (const int64_t bytes : bytes_of_slices) largest = std::max(largest, bytes);
    const int64_t full = block_bytes(largest);
    for (const int64_t bytes : bytes_of_slices) {
      if (sizes_.empty() || base::round_up(sizes_.back(), kAlignment) + bytes > full) sizes_.push_back(0);
      const int64_t offset = base::round_up(sizes_.back(), kAlignment);
      places_.push_back({sizes_.size() - 1, offset});
      sizes_.back() = offset + bytes;
    }
  }

  /// Where each slice lies.
  [[nodiscard]] const std::vector<Place>& places() const { return places_; }
  /// Bytes of each block.
  [[nodiscard]] const std::vector<int64_t>& sizes() const { return sizes_; }

  /// What `bytes` in slices of at most `largest` take, where they fill their blocks: what is left at the end of one is
  /// smaller than the largest slice, and mostly much smaller.
  static int64_t pinned_bytes(int64_t bytes, int64_t largest) {
    const int64_t full = block_bytes(std::min(largest, bytes));
    return full == 0 ? 0 : bytes / full * full + device::pinned_bytes(bytes % full);
  }

 private:
  /// The size of a full block, in which several of the largest slices find room.
  static int64_t block_bytes(int64_t largest) { return 4 * device::pinned_bytes(largest); }

  std::vector<Place> places_;
  std::vector<int64_t> sizes_;
};

}  // namespace ddpm::run
