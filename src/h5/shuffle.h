// Inside src/h5 only: arrays whose bytes, or bits, were put in another order so that they pack better.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ddpm::h5 {

/// Undoes HDF5's shuffle: of n elements, byte k of element i lies at k · n + i, and what is no whole element follows as
/// it is. `out` has as many bytes as `data`, and lies elsewhere.
void unshuffle(std::span<const std::byte> data, std::size_t element_bytes, std::span<std::byte> out);

/// Undoes bitshuffle of a block of n elements, n a multiple of 8 (Masui et al. 2015, "A compression scheme for radio
/// data in high performance computing"): bit i of byte g of row 8 k + b, a row having n / 8 bytes, is bit b of byte k
/// of element 8 g + i. For one thread at a time.
class BitUnshuffler {
 public:
  /// `data` has n · element_bytes bytes, and so has `out`, which lies elsewhere.
  void undo(std::span<const std::byte> data, std::size_t element_bytes, std::span<std::byte> out);

 private:
  std::vector<std::byte> turned_;  // work space for one byte of all elements
  std::vector<std::byte> bytes_;   // shuffled by bytes only
};

}  // namespace ddpm::h5
