// The CUDA kernels of nn/ops/column_sums.h. Include it after CUDA's runtime header; tests run them on a CPU.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/column_sums.h"
#include "nn/ops/cuda/group_norm_tile.cuh"

namespace ddpm::nn::cuda {

/// Sums of a run's rows: for the result itself, or for column_sums_of_runs.
template <typename T, int kVector>
__global__ __launch_bounds__(kColumnThreads) void column_sums_of_rows(ColumnSums a) {
  __shared__ float sums[kVector][kColumnThreads];
  const int me = static_cast<int>(threadIdx.x);
  const int slab = static_cast<int>(blockIdx.x) % a.slabs;
  const int64_t run = static_cast<int>(blockIdx.x) / a.slabs;
  const int down = kColumnThreads / a.across;
  const int place = me % a.across;
  const int first_column = (slab * a.across + place) * kVector;
  const int64_t begin = run * a.run_rows;
  const int64_t end = begin + a.run_rows < a.row_count ? begin + a.run_rows : a.row_count;
  float mine[kVector] = {};
  if (me < down * a.across && first_column < a.columns) {
    const T* const from = static_cast<const T*>(a.rows) + first_column;
#pragma unroll 8
    for (int64_t row = begin + me / a.across; row < end; row += down) {
      const Pack<T, kVector> pack = load<kVector>(from + row * a.columns);
      for (int v = 0; v < kVector; ++v) mine[v] += pack.get(v);
    }
  }
  for (int v = 0; v < kVector; ++v) sums[v][me] = mine[v];
  __syncthreads();
  for (int i = me; i < a.across * kVector; i += kColumnThreads) {
    const int column = slab * a.across * kVector + i;
    if (column >= a.columns) break;
    float sum = 0.0F;
    for (int row = 0; row < down; ++row) sum += sums[i % kVector][row * a.across + i / kVector];
    if (a.of_runs != nullptr) {
      a.of_runs[run * a.columns + column] = sum;
    } else {
      put({a.sums, a.type, 0}, 0, column, static_cast<double>(sum));
    }
  }
}

/// A block has the 32 columns of a warp's lanes; its warps take the runs in turn.
__global__ __launch_bounds__(kRunWarps* kWarp) void column_sums_of_runs(ColumnSums a) {
  __shared__ double sums[kRunWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int column = static_cast<int>(blockIdx.x) * kWarp + lane;
  double sum = 0.0;
  if (column < a.columns) {
#pragma unroll 8
    for (int64_t run = warp; run < a.runs; run += kRunWarps) {
      sum += static_cast<double>(a.of_runs[run * a.columns + column]);
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= a.columns) return;
  for (int other = 1; other < kRunWarps; ++other) sum += sums[other][lane];
  put({a.sums, a.type, 0}, 0, column, sum);
}

/// Calls launch(kernel, blocks, threads, arguments...) for each kernel.
template <typename Launch>
void column_sums(const ColumnSums& a, const Launch& launch) {
  const int64_t blocks = int64_t{a.runs} * a.slabs;
  for_types(a.type, a.vector,
            [&]<typename T, int kVector>() { launch(column_sums_of_rows<T, kVector>, blocks, kColumnThreads, a); });
  if (a.runs > 1) launch(column_sums_of_runs, plan::divide_up(a.columns, kWarp), kRunWarps * kWarp, a);
}

}  // namespace ddpm::nn::cuda
