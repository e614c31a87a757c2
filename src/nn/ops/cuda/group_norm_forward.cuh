// CUDA kernels for the forward pass of group normalisation: see nn/ops/group_norm_silu.h for the operation.
//
// In one pass, a block keeps its tile in registers: each value is read and written once. In two, a first kernel leaves
// mean and sum of squared deviations of each cell, and a second adds them up and applies them. Sums are taken relative
// to each thread's first value, then moved to the cell's mean: a mean far from zero, or an outlier, costs no digits.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_tile.cuh"

namespace ddpm::nn::cuda {

/// Sums over a thread's pixels, for each channel of its column: Σ (x - first) and Σ (x - first)².
template <typename T, int kVector>
struct ThreadMoments {
  float first[kVector];
  float sum[kVector] = {};
  float squares[kVector] = {};
  int count = 0;

  __device__ void begin(const Pack<T, kVector>& pack) {
    for (int v = 0; v < kVector; ++v) first[v] = pack.get(v);
  }
  __device__ void add(const Pack<T, kVector>& pack) {
    for (int v = 0; v < kVector; ++v) {
      const float d = pack.get(v) - first[v];
      sum[v] += d;
      squares[v] += d * d;
    }
    ++count;
  }
};

/// Shared memory for statistics. Of each cell, with v = x + shift_before.
template <int kVector, int kThreads>
struct CellStatistics {
  RowSums<kVector, kThreads> rows;
  float totals[kMaxColumns * kVector];
  float origin[kMaxColumns * kVector];  ///< per channel: v is taken relative to a value of the cell by x - origin
  float mean[kMaxColumns * kVector];    ///< mean of each cell, relative as v is
  float squares[kMaxColumns * kVector];
};

/// The thread's next pixels of x, as load_rows(); with kResidual they are added first, and written down.
template <bool kResidual, typename T, int kVector, int kCount>
__device__ __forceinline__ void load_x(const NormBatch& b, const NormAddition& a, int64_t offset, int pixel, int pixels,
                                       Pack<T, kVector> (&packs)[kCount]) {
  if constexpr (!kResidual) return load_rows(static_cast<const T*>(b.x) + offset, b.grid, pixel, pixels, packs);
  Pack<T, kVector> residual[kCount] = {};
  load_rows(static_cast<const T*>(a.addend) + offset, b.grid, pixel, pixels, packs);
  load_rows(static_cast<const T*>(a.residual) + offset, b.grid, pixel, pixels, residual);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int p = pixel + i * b.grid.rows;
    if (p >= pixels) continue;
    packs[i] = sum_of(packs[i], residual[i]);
    store(static_cast<T*>(a.x) + offset + static_cast<int64_t>(p) * b.grid.channels, packs[i]);
  }
}

/// The value that a cell's sums are relative to: that of its first pixel and channel in the tile.
template <bool kResidual, typename T>
__device__ float first_value(const NormBatch& b, const NormAddition& a, const Tile& t, int cell) {
  const int64_t i = t.offset + cell * t.cell_channels;
  if constexpr (!kResidual) return static_cast<float>(static_cast<const T*>(b.x)[i]);
  const auto addend = static_cast<float>(static_cast<const T*>(a.addend)[i]);
  return static_cast<float>(static_cast<T>(addend + static_cast<float>(static_cast<const T*>(a.residual)[i])));
}
__device__ inline float first_shift(const NormBatch& b, const Tile& t, int cell) {
  return value_at(b.shift_before, t.image, t.channel + cell * t.cell_channels);
}

template <bool kResidual, typename T, typename Shared>
__device__ void set_origins(const NormBatch& b, const NormAddition& a, const Tile& t, Shared& s) {
  for (int c = static_cast<int>(threadIdx.x); c < t.channels; c += static_cast<int>(blockDim.x)) {
    const int cell = c / t.cell_channels;
    s.origin[c] = first_value<kResidual, T>(b, a, t, cell) -
                  (value_at(b.shift_before, t.image, t.channel + c) - first_shift(b, t, cell));
  }
  __syncthreads();
}

/// s.mean and s.squares of the tile's cells from what its threads have seen; first the means, then deviations from
/// them.
template <typename T, int kVector, int kThreads>
__device__ void sum_moments(const NormGrid& g, const Tile& t, const ThreadMoments<T, kVector>& mine,
                            CellStatistics<kVector, kThreads>& s) {
  const int column = t.first_channel<kVector>(g);
  const auto n = static_cast<float>(mine.count);
  float values[kVector];
  for (int v = 0; v < kVector; ++v) {
    values[v] = mine.count == 0 ? 0.0F : n * (mine.first[v] - s.origin[column + v]) + mine.sum[v];
  }
  sum_over_rows(g, values, s.rows, s.totals);
  const float elements = static_cast<float>(t.pixels) * static_cast<float>(t.cell_channels);
  sum_over_cells(
      t, [&](int c) { return s.totals[c] / elements; }, s.mean);
  __syncthreads();
  for (int v = 0; v < kVector; ++v) {
    values[v] = 0.0F;
    if (mine.count == 0) continue;
    const float mean = mine.sum[v] / n;
    const float within = mine.squares[v] - mine.sum[v] * mean;
    const float moved = mine.first[v] - s.origin[column + v] + mean - s.mean[(column + v) / t.cell_channels];
    values[v] = (within < 0.0F ? 0.0F : within) + n * moved * moved;  // rounding may leave a negative number
  }
  sum_over_rows(g, values, s.rows, s.totals);
  sum_over_cells(
      t, [&](int c) { return s.totals[c]; }, s.squares);
  __syncthreads();
}

/// y = act((x - centre) · factor + bias), per channel of a tile.
struct Affine {
  float centre[kMaxSlabChannels];
  float factor[kMaxSlabChannels];
  float bias[kMaxSlabChannels];
};

template <int kVector>
struct ThreadAffine {
  float centre[kVector];
  float factor[kVector];
  float bias[kVector];

  __device__ ThreadAffine(const Affine& a, int channel) {
    for (int v = 0; v < kVector; ++v) {
      centre[v] = a.centre[channel + v];
      factor[v] = a.factor[channel + v];
      bias[v] = a.bias[channel + v];
    }
  }
  template <bool kSilu, typename T>
  __device__ Pack<T, kVector> apply(const Pack<T, kVector>& x) const {
    Pack<T, kVector> y = {};
    for (int v = 0; v < kVector; ++v) {
      float u = (x.get(v) - centre[v]) * factor[v] + bias[v];
      if constexpr (kSilu) u *= sigmoid(u);
      y.set(v, u);
    }
    return y;
  }
};

/// Computes the coefficients from the statistics of the tile's cells.
__device__ inline void set_affine(const NormBatch& b, const Tile& t, const float* mean, const float* rstd, Affine& a) {
  for (int c = static_cast<int>(threadIdx.x); c < t.channels; c += static_cast<int>(blockDim.x)) {
    const int cell = c / t.cell_channels;
    const int channel = t.channel + c;
    const float scale = 1.0F + value_at(b.scale, t.image, channel);
    a.centre[c] = mean[cell] - value_at(b.shift_before, t.image, channel);
    a.factor[c] = rstd[cell] * value_at(b.weight, 0, channel) * scale;
    a.bias[c] = value_at(b.bias, 0, channel) * scale + value_at(b.shift_after, t.image, channel);
  }
  __syncthreads();
}

template <typename T, int kVector, bool kSilu, bool kResidual>
__global__ __launch_bounds__(kOnePassThreads, 1) void norm_forward_one_pass(NormBatch b, NormAddition a, float eps,
                                                                            T* y) {
  __shared__ CellStatistics<kVector, kOnePassThreads> s;
  __shared__ Affine affine;
  const NormGrid& g = b.grid;
  const Tile t(g, blockIdx.x);
  const int row = t.first_row<kVector>(g);
  const int column = t.first_channel<kVector>(g);
  Pack<T, kVector> held[kForwardHeld] = {};
  load_x<kResidual>(b, a, t.offset + column, row, t.pixels, held);
  set_origins<kResidual, T>(b, a, t, s);
  ThreadMoments<T, kVector> moments;
  moments.begin(held[0]);
#pragma unroll
  for (int i = 0; i < kForwardHeld; ++i) {
    if (row + i * g.rows < t.pixels) moments.add(held[i]);
  }
  sum_moments(g, t, moments, s);
  const auto elements = static_cast<float>(group_elements(g));
  for (int cell = static_cast<int>(threadIdx.x); cell < t.cells; cell += static_cast<int>(blockDim.x)) {
    const int64_t i = static_cast<int64_t>(t.image) * g.groups + t.first_group + cell;
    s.mean[cell] += first_value<kResidual, T>(b, a, t, cell) + first_shift(b, t, cell);
    s.squares[cell] = 1.0F / sqrtf(s.squares[cell] / elements + eps);
    b.mean[i] = s.mean[cell];
    b.rstd[i] = s.squares[cell];
  }
  __syncthreads();
  set_affine(b, t, s.mean, s.squares, affine);
  const ThreadAffine<kVector> mine(affine, column);
#pragma unroll
  for (int i = 0; i < kForwardHeld; ++i) {
    const int p = row + i * g.rows;
    if (p < t.pixels) {
      store(y + t.offset + column + static_cast<int64_t>(p) * g.channels, mine.template apply<kSilu>(held[i]));
    }
  }
}

/// Pixels that a thread loads at once.
constexpr int kForwardBatch = 4;

/// The first of two passes: the moments of each tile's cells.
template <typename T, int kVector, bool kResidual>
__global__ __launch_bounds__(kTwoPassThreads, 2) void norm_moments(NormBatch b, NormAddition a, CellMoments* cells) {
  __shared__ CellStatistics<kVector, kTwoPassThreads> s;
  const NormGrid& g = b.grid;
  const Tile t(g, blockIdx.x);
  const int64_t offset = t.offset + t.first_channel<kVector>(g);
  int p = t.first_row<kVector>(g);
  ThreadMoments<T, kVector> moments;
  Pack<T, kVector> batch[kForwardBatch] = {};
  load_x<kResidual>(b, a, offset, p, t.pixels, batch);
  set_origins<kResidual, T>(b, a, t, s);
  moments.begin(batch[0]);
  while (p < t.pixels) {
#pragma unroll
    for (int i = 0; i < kForwardBatch; ++i) {
      if (p + i * g.rows < t.pixels) moments.add(batch[i]);
    }
    p += kForwardBatch * g.rows;
    load_x<kResidual>(b, a, offset, p, t.pixels, batch);
  }
  sum_moments(g, t, moments, s);
  for (int cell = static_cast<int>(threadIdx.x); cell < t.cells; cell += static_cast<int>(blockDim.x)) {
    const double origin =
        static_cast<double>(first_value<kResidual, T>(b, a, t, cell)) + static_cast<double>(first_shift(b, t, cell));
    cells[t.cell_index(g) + cell] = {origin + static_cast<double>(s.mean[cell]), static_cast<double>(s.squares[cell])};
  }
}

/// Mean and 1/σ of the tile's groups from all their cells. The image's first tiles also write them down.
__device__ inline void merge_moments(const NormBatch& b, const Tile& t, const CellMoments* cells, float eps,
                                     float* mean_of_cell, float* rstd_of_cell) {
  const NormGrid& g = b.grid;
  for_cells(t.cells, [&](int cell, int rank) {
    const int group = t.first_group + (cell < t.cells ? cell : 0);
    double mean = 0.0;
    for_cells_of_group(g, t.image, group, rank, kTeam,
                       [&](int64_t i, double elements) { mean += elements * cells[i].mean; });
    mean = sum_over_team(mean) / group_elements(g);
    double squares = 0.0;
    for_cells_of_group(g, t.image, group, rank, kTeam, [&](int64_t i, double elements) {
      const double moved = cells[i].mean - mean;
      squares += cells[i].squares + elements * moved * moved;
    });
    squares = sum_over_team(squares);
    if (cell >= t.cells || rank != 0) return;
    mean_of_cell[cell] = static_cast<float>(mean);
    rstd_of_cell[cell] = static_cast<float>(1.0 / sqrt(squares / group_elements(g) + static_cast<double>(eps)));
    if (t.chunk != 0 || t.slab % g.parts != 0) return;
    b.mean[static_cast<int64_t>(t.image) * g.groups + group] = mean_of_cell[cell];
    b.rstd[static_cast<int64_t>(t.image) * g.groups + group] = rstd_of_cell[cell];
  });
  __syncthreads();
}

/// The second of two passes, from the last tile to the first: what the first pass read last is still in the cache.
template <typename T, int kVector, bool kSilu>
__global__ __launch_bounds__(kTwoPassThreads, 3) void norm_apply(NormBatch b, const CellMoments* cells, float eps,
                                                                 T* y) {
  __shared__ float mean[kMaxSlabChannels];
  __shared__ float rstd[kMaxSlabChannels];
  __shared__ Affine affine;
  const NormGrid& g = b.grid;
  const Tile t(g, gridDim.x - 1 - blockIdx.x);
  const int column = t.first_channel<kVector>(g);
  const int64_t offset = t.offset + column;
  const T* const x = static_cast<const T*>(b.x) + offset;
  int p = t.first_row<kVector>(g);
  Pack<T, kVector> batch[kForwardBatch] = {};
  load_rows(x, g, p, t.pixels, batch);
  merge_moments(b, t, cells, eps, mean, rstd);
  set_affine(b, t, mean, rstd, affine);
  const ThreadAffine<kVector> mine(affine, column);
  while (p < t.pixels) {
#pragma unroll
    for (int i = 0; i < kForwardBatch; ++i) {
      const int row = p + i * g.rows;
      if (row < t.pixels) {
        store(y + offset + static_cast<int64_t>(row) * g.channels, mine.template apply<kSilu>(batch[i]));
      }
    }
    p += kForwardBatch * g.rows;
    load_rows(x, g, p, t.pixels, batch);
  }
}

/// Calls launch(kernel, blocks, threads, arguments...) for each kernel of the forward pass.
template <typename Launch>
void group_norm_forward(const NormForward& f, const Launch& launch) {
  const NormPlan& plan = f.plan;
  const int64_t tiles = plan.grid.tiles();
  const bool residual = f.addition.residual != nullptr;
  for_kernels(f.type, plan.vector, f.silu, residual, [&]<typename T, int kVector, bool kSilu, bool kResidual>() {
    T* const y = static_cast<T*>(f.y);
    if constexpr (kVector > 1) {
      if (plan.one_pass) {
        launch(norm_forward_one_pass<T, kVector, kSilu, kResidual>, tiles, plan.threads, f.batch, f.addition, f.eps, y);
        return;
      }
    }
    const CellMoments* const cells = f.cells;
    launch(norm_moments<T, kVector, kResidual>, tiles, plan.threads, f.batch, f.addition, f.cells);
    launch(norm_apply<T, kVector, kSilu>, tiles, plan.threads, f.batch, cells, f.eps, y);
  });
}

}  // namespace ddpm::nn::cuda
