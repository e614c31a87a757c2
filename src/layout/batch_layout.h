// How a global batch is cut into micro-batches over data-parallel ranks and accumulation steps.
#pragma once

#include <cstdint>
#include <string>

#include "layout/range.h"

namespace ddpm::layout {

/// Rank r owns the consecutive positions [r·share, (r+1)·share) of the global batch, share = global / ranks, in
/// share / micro micro-batches.
struct BatchLayout {
  int64_t global_size = 0;
  int64_t micro_size = 0;
  int64_t data_parallel_size = 1;

  /// Why a batch of `global_size` cannot be cut like that, with all the numbers; "" if it can.
  static std::string refusal(int64_t global_size, int64_t micro_size, int64_t data_parallel_size);
  /// Throws ConfigError with all three numbers when global is not a multiple of micro × ranks.
  static BatchLayout make(int64_t global_size, int64_t micro_size, int64_t data_parallel_size);

  [[nodiscard]] int64_t accumulation_steps() const { return global_size / (micro_size * data_parallel_size); }
  /// Positions of micro-batch `micro` (of accumulation_steps()) on `rank`.
  [[nodiscard]] Range positions(int64_t rank, int64_t micro) const {
    const int64_t begin = rank * (global_size / data_parallel_size) + micro * micro_size;
    return {begin, begin + micro_size};
  }
};

}  // namespace ddpm::layout
