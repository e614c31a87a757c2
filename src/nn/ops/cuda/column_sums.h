// How nn/ops/column_sums.h's operator is cut among thread blocks, and what starts its kernels; part of libddpm_cuda.so.
//
// Threads of a block stand in columns, of 16 bytes of a row each (one value where columns or addresses do not divide),
// and rows. A block sums a run of rows; where there are several runs, a second kernel adds up their sums. The cut
// follows from the sizes and the alignment: the same bits on any GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nn/ops/cuda/group_norm_plan.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddpm::nn::cuda {

constexpr int kColumnThreads = 256;  ///< threads in a block of the first kernel
constexpr int kRunWarps = 32;        ///< warps in a block of the second kernel
constexpr int kMaxRuns = 256;

struct ColumnSums {
  const void* rows;  ///< contiguous
  void* sums;
  float* of_runs;  ///< workspace [runs, columns]; null where there is one run
  ElementType type;
  int32_t vector;   ///< values of a row that a thread reads at once
  int32_t columns;  ///< columns that the matrix has
  int32_t across;   ///< threads of a block along a row
  int32_t slabs;    ///< blocks along a row
  int32_t runs;
  int64_t row_count;
  int64_t run_rows;
};

/// `aligned`: the rows begin at a multiple of 16 bytes. Leaves the pointers null.
inline ColumnSums plan_column_sums(int64_t rows, int64_t columns, ElementType type, bool aligned) {
  constexpr int64_t kWidest = 64;    // threads along a row: 1 KiB
  constexpr int64_t kLeastEach = 8;  // rows of a thread, all on their way at once
  const int64_t wide = 16 / bytes_of(type);
  const int64_t vector = aligned && columns % wide == 0 ? wide : 1;
  const int64_t packs = columns / vector;
  const int64_t across = std::min(packs, kWidest);
  const int64_t down = kColumnThreads / across;
  const int64_t run = std::max(down * kLeastEach, base::round_up(plan::divide_up(rows, kMaxRuns), down));
  return {.rows = nullptr,
          .sums = nullptr,
          .of_runs = nullptr,
          .type = type,
          .vector = static_cast<int32_t>(vector),
          .columns = static_cast<int32_t>(columns),
          .across = static_cast<int32_t>(across),
          .slabs = static_cast<int32_t>(plan::divide_up(packs, across)),
          .runs = static_cast<int32_t>(plan::divide_up(rows, run)),
          .row_count = rows,
          .run_rows = run};
}

/// Only queues work on `stream`. Throws c10::Error when a kernel cannot be started.
void start_column_sums(const ColumnSums& sums, CUstream_st* stream);

}  // namespace ddpm::nn::cuda
