// Which part of a tensor a rank holds, where its values are cut along one dimension over a few ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddpm::base {

/// Parts are of equal size and follow each other along the dimension.
struct Split {
  int dim = -1;       ///< the dimension that may be cut; -1: every rank holds the whole tensor
  int64_t units = 1;  ///< along `dim`; what lies in one of them, such as a head or a group of channels, stays together
  int64_t parts = 1;
  int64_t part = 0;  ///< the one that is here

  [[nodiscard]] bool cuts() const { return dim >= 0 && parts > 1; }
  /// How many parts make the whole tensor.
  [[nodiscard]] int64_t times() const { return cuts() ? parts : 1; }
  /// The shape of the whole tensor, of which a part of this shape is here.
  [[nodiscard]] std::vector<int64_t> whole(std::vector<int64_t> held) const {
    if (dim >= 0) held[static_cast<std::size_t>(dim)] *= times();
    return held;
  }
};

}  // namespace ddpm::base
