// Deals any number of items in batches, which the ranks take in turn; nothing has to divide evenly.
#pragma once

#include <algorithm>
#include <cstdint>

#include "layout/range.h"

namespace ddpm::layout {

/// In round r, rank k has batch r · ranks + k. The last batch may be short, and in the last round ranks may have none:
/// what a batch holds does not depend on the number of ranks.
struct DealtBatches {
  int64_t count = 0;       ///< items
  int64_t batch_size = 1;  ///< items of a batch
  int64_t ranks = 1;

  [[nodiscard]] int64_t rounds() const {
    const int64_t batches = (count + batch_size - 1) / batch_size;
    return (batches + ranks - 1) / ranks;
  }
  /// Items that `rank` has in `round`; empty when nothing is left for it.
  [[nodiscard]] Range items(int64_t round, int64_t rank) const {
    const int64_t begin = std::min((round * ranks + rank) * batch_size, count);
    return {begin, std::min(begin + batch_size, count)};
  }
};

}  // namespace ddpm::layout
