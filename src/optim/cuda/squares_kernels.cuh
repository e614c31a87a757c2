// The first CUDA kernels of optim/update_operators.h: the sum of squares of flat buffers. Include it after CUDA's
// runtime header (see optim/cuda/update_kernels.cuh).
#pragma once

#include <cfloat>
#include <cstdint>

#include "optim/cuda/update_launch.h"

namespace ddpm::optim {

/// Which of consecutive runs of indices, which begin at `first[0]` = 0, holds `index`.
__device__ inline int find_run(const int64_t* first, int count, int64_t index) {
  int run = 0;
  while (run + 1 < count && index >= first[run + 1]) ++run;
  return run;
}

// The order is the host's: 16 interleaved float64 sums per block of kNormBlock elements, their tree, and the tree of
// all blocks. A product of two float32 is exact in float64, so that it does not matter whether it is fused with the
// addition.

/// block_sums[b] of all norm blocks of the batch. A half-warp per norm block reads 64 bytes at a time, of which the
/// unrolled loop has many on their way.
__global__ void __launch_bounds__(kNormThreads)
    block_squares_kernel(const __grid_constant__ SquaresBatch batch, double* block_sums) {
  const int64_t block = (static_cast<int64_t>(blockIdx.x) * kNormThreads + threadIdx.x) / kNormLanes;
  const int lane = static_cast<int>(threadIdx.x) % kNormLanes;
  const float* values = nullptr;
  int size = 0;
  if (block < batch.blocks) {
    const int piece = find_run(batch.first_block, batch.count, block);
    const int64_t begin = (block - batch.first_block[piece]) * kNormBlock;
    const int64_t left = batch.size[piece] - begin;
    values = batch.values[piece] + begin;
    size = static_cast<int>(left < kNormBlock ? left : kNormBlock);
  }
  double sum = 0.0;
#pragma unroll 16
  for (int i = lane; i < size; i += kNormLanes) {
    const double x = values[i];
    sum = __dadd_rn(sum, __dmul_rn(x, x));
  }
  for (int width = kNormLanes / 2; width > 0; width /= 2) {
    sum = __dadd_rn(sum, __shfl_down_sync(0xffffffffU, sum, static_cast<unsigned>(width)));
  }
  if (lane == 0 && block < batch.blocks) block_sums[block] = sum;
}

/// optim::tree_sum of at most kTreeRun values, for thread 0 of a block of kTreeThreads.
__device__ inline double block_tree_sum(const double* values, int count) {
  __shared__ double nodes[kTreeRun];
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kTreeThreads) nodes[i] = values[i];
  __syncthreads();
  for (int stride = 1; stride < count; stride *= 2) {
    const int step = 2 * stride;
    for (int i = static_cast<int>(threadIdx.x) * step; i + stride < count; i += kTreeThreads * step) {
      nodes[i] = __dadd_rn(nodes[i], nodes[i + stride]);
    }
    __syncthreads();
  }
  const double sum = nodes[0];
  __syncthreads();  // before the next call writes
  return sum;
}

/// run_sums[r]: a block per run of a piece's block sums.
__global__ void __launch_bounds__(kTreeThreads)
    run_tree_kernel(const __grid_constant__ SquaresBatch batch, const double* block_sums, double* run_sums) {
  const int64_t run = blockIdx.x;
  const int piece = find_run(batch.first_run, batch.count, run);
  const int64_t begin = (run - batch.first_run[piece]) * kTreeRun;
  const int64_t end = piece + 1 < batch.count ? batch.first_block[piece + 1] : batch.blocks;
  const int64_t left = end - batch.first_block[piece] - begin;
  const double sum = block_tree_sum(block_sums + batch.first_block[piece] + begin,
                                    static_cast<int>(left < kTreeRun ? left : kTreeRun));
  if (threadIdx.x == 0) run_sums[run] = sum;
}

/// Adds the batch's pieces to sums[0], from 0 in the first batch; completes `sums` (sum_of_squares_) in the last. One
/// block. A piece has at most kTreeRun runs: 16 Gi elements.
__global__ void __launch_bounds__(kTreeThreads)
    total_squares_kernel(const __grid_constant__ SquaresBatch batch, const double* run_sums, bool first, bool last,
                         double replicas, double* sums) {
  double own = first ? 0.0 : sums[0];
  for (int piece = 0; piece < batch.count; ++piece) {
    const int64_t end = piece + 1 < batch.count ? batch.first_run[piece + 1] : batch.runs;
    const int64_t begin = batch.first_run[piece];
    own = __dadd_rn(own, block_tree_sum(run_sums + begin, static_cast<int>(end - begin)));
  }
  if (threadIdx.x != 0) return;
  sums[0] = own;
  if (!last) return;
  const bool finite = own <= DBL_MAX;  // not for NaN
  sums[1] = finite ? own / replicas : 0.0;
  sums[2] = finite ? 0.0 : 1.0;
}

}  // namespace ddpm::optim
