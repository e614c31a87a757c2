// CUDA kernels for the backward pass of group normalisation. With
//
//   v = x + shift_before,  x̂ = (v - mean) / σ,  u = x̂ · W + B,  W = weight · (1 + scale),
//   B = bias · (1 + scale) + shift_after,  y = u or silu(u)
//
// and P = Σ du, R = Σ du · x̂, X = Σ x̂ over an image's pixels, the gradients are
//
//   bias: Σ_n (1 + scale) P    weight: Σ_n (1 + scale) R    shift_after: P    scale: weight · R + bias · P
//   x: (W du - p - x̂ r) / σ (+ residual_gradient)    shift_before: (W P - pixels · p - X r) / σ
//
// where p and r are the means of W du and W du x̂ over a group. In one pass, a block keeps its tile of x and dy in
// registers; in two, a first kernel leaves the sums of each tile. A last kernel adds up the parameters' gradients.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_tile.cuh"

namespace ddpm::nn::cuda {

__device__ inline int64_t sum_index(const NormGrid& g, int image, int chunk, NormSum kind, int channel) {
  return ((static_cast<int64_t>(image) * g.chunks + chunk) * kNormSums + kind) * g.channels + channel;
}

/// x̂ = (x - centre) · rstd and u = x̂ · weight + bias, per channel of a tile.
struct Normalised {
  float centre[kMaxSlabChannels];
  float rstd[kMaxSlabChannels];
  float weight[kMaxSlabChannels];
  float bias[kMaxSlabChannels];
};

__device__ inline float image_weight(const NormBatch& b, int image, int channel) {
  return value_at(b.weight, 0, channel) * (1.0F + value_at(b.scale, image, channel));
}

__device__ inline void set_normalised(const NormBatch& b, const Tile& t, Normalised& n) {
  for (int c = static_cast<int>(threadIdx.x); c < t.channels; c += static_cast<int>(blockDim.x)) {
    const int channel = t.channel + c;
    const int64_t group = static_cast<int64_t>(t.image) * b.grid.groups + t.first_group + c / t.cell_channels;
    n.centre[c] = b.mean[group] - value_at(b.shift_before, t.image, channel);
    n.rstd[c] = b.rstd[group];
    n.weight[c] = image_weight(b, t.image, channel);
    n.bias[c] = value_at(b.bias, 0, channel) * (1.0F + value_at(b.scale, t.image, channel)) +
                value_at(b.shift_after, t.image, channel);
  }
  __syncthreads();
}

template <int kVector>
struct ThreadNormalised {
  float centre[kVector];
  float rstd[kVector];
  float weight[kVector];
  float bias[kVector];

  __device__ ThreadNormalised(const Normalised& n, int channel) {
    for (int v = 0; v < kVector; ++v) {
      centre[v] = n.centre[channel + v];
      rstd[v] = n.rstd[channel + v];
      weight[v] = n.weight[channel + v];
      bias[v] = n.bias[channel + v];
    }
  }
  __device__ float normal(int v, float x) const { return (x - centre[v]) * rstd[v]; }
  template <bool kSilu>
  __device__ float du(int v, float normal, float dy) const {
    if constexpr (!kSilu) return dy;
    const float u = normal * weight[v] + bias[v];
    const float s = sigmoid(u);
    return dy * (s + s * (u - u * s));  // (u · sigmoid(u))' = s + u · s · (1 - s)
  }
};

/// P, R and X of a thread's pixels, for each channel of its column.
template <int kVector>
struct ThreadSums {
  float p[kVector] = {};
  float r[kVector] = {};
  float x[kVector] = {};

  template <bool kSilu, typename T>
  __device__ void add(const ThreadNormalised<kVector>& n, const Pack<T, kVector>& x_pack,
                      const Pack<T, kVector>& dy_pack) {
    for (int v = 0; v < kVector; ++v) {
      const float normal = n.normal(v, x_pack.get(v));
      const float du = n.template du<kSilu>(v, normal, dy_pack.get(v));
      p[v] += du;
      r[v] += du * normal;
      x[v] += normal;
    }
  }
};

template <int kVector, int kThreads>
struct GradientSums {
  RowSums<kVector, kThreads> rows;
  float totals[kMaxColumns * kVector];
  float p[kMaxColumns * kVector];  ///< one sum for each cell, as in r: see CellSums
  float r[kMaxColumns * kVector];
};

/// Writes the tile's sums down, and leaves those of its cells in s.
template <int kVector, int kThreads>
__device__ void sum_gradients(const NormBackward& a, const Tile& t, const ThreadSums<kVector>& mine,
                              GradientSums<kVector, kThreads>& s) {
  const NormGrid& g = a.batch.grid;
  const auto sum = [&](const float(&values)[kVector], NormSum kind, float* of_cells) {
    sum_over_rows(g, values, s.rows, s.totals);
    for (int c = static_cast<int>(threadIdx.x); c < t.channels; c += static_cast<int>(blockDim.x)) {
      a.sums[sum_index(g, t.image, t.chunk, kind, t.channel + c)] = s.totals[c];
    }
    if (of_cells == nullptr) return;
    sum_over_cells(
        t, [&](int c) { return image_weight(a.batch, t.image, t.channel + c) * s.totals[c]; }, of_cells);
  };
  sum(mine.p, kSumP, s.p);
  sum(mine.r, kSumR, s.r);
  if (a.gradients.shift_before.data != nullptr) sum(mine.x, kSumX, nullptr);
  __syncthreads();
  for (int cell = static_cast<int>(threadIdx.x); cell < t.cells; cell += static_cast<int>(blockDim.x)) {
    a.cells[t.cell_index(g) + cell] = {s.p[cell], s.r[cell]};
  }
}

/// dx = (weight · du - p - x̂ · r) · rstd (+ residual_gradient) for each channel of a thread's column.
template <int kVector, bool kResidual>
struct ThreadInputGradient {
  float p[kVector];
  float r[kVector];

  /// p and r: means per cell
  __device__ ThreadInputGradient(const Tile& t, const float* p_of_cell, const float* r_of_cell, int channel) {
    for (int v = 0; v < kVector; ++v) {
      const int cell = (channel + v) / t.cell_channels;
      p[v] = p_of_cell[cell];
      r[v] = r_of_cell[cell];
    }
  }
  template <bool kSilu, typename T>
  __device__ Pack<T, kVector> apply(const ThreadNormalised<kVector>& n, const Pack<T, kVector>& x,
                                    const Pack<T, kVector>& dy, const Pack<T, kVector>& residual_gradient) const {
    Pack<T, kVector> dx = {};
    for (int v = 0; v < kVector; ++v) {
      const float normal = n.normal(v, x.get(v));
      const float du = n.template du<kSilu>(v, normal, dy.get(v));
      float d = (n.weight[v] * du - p[v] - normal * r[v]) * n.rstd[v];
      if constexpr (kResidual) d += residual_gradient.get(v);
      dx.set(v, d);
    }
    return dx;
  }
};

template <typename T, int kVector, bool kSilu, bool kResidual>
__global__ __launch_bounds__(kOnePassThreads, 1) void norm_backward_one_pass(NormBackward a) {
  __shared__ GradientSums<kVector, kOnePassThreads> s;
  __shared__ Normalised normalised;
  const NormGrid& g = a.batch.grid;
  const Tile t(g, blockIdx.x);
  const int row = t.first_row<kVector>(g);
  const int column = t.first_channel<kVector>(g);
  const int64_t offset = t.offset + column;
  Pack<T, kVector> x[kBackwardHeld] = {};
  Pack<T, kVector> dy[kBackwardHeld] = {};
  load_rows(static_cast<const T*>(a.batch.x) + offset, g, row, t.pixels, x);
  load_rows(static_cast<const T*>(a.dy) + offset, g, row, t.pixels, dy);
  set_normalised(a.batch, t, normalised);
  const ThreadNormalised<kVector> mine(normalised, column);
  ThreadSums<kVector> sums;
#pragma unroll
  for (int i = 0; i < kBackwardHeld; ++i) {
    if (row + i * g.rows < t.pixels) sums.template add<kSilu>(mine, x[i], dy[i]);
  }
  sum_gradients(a, t, sums, s);
  Pack<T, kVector> residual[kBackwardHeld] = {};  // before the sums registers would not hold it
  if constexpr (kResidual) load_rows(static_cast<const T*>(a.residual_gradient) + offset, g, row, t.pixels, residual);
  const auto elements = static_cast<float>(group_elements(g));
  for (int cell = static_cast<int>(threadIdx.x); cell < t.cells; cell += static_cast<int>(blockDim.x)) {
    s.p[cell] /= elements;
    s.r[cell] /= elements;
  }
  __syncthreads();
  const ThreadInputGradient<kVector, kResidual> gradient(t, s.p, s.r, column);
  T* const dx = static_cast<T*>(a.dx) + offset;
#pragma unroll
  for (int i = 0; i < kBackwardHeld; ++i) {
    const int p = row + i * g.rows;
    if (p < t.pixels) {
      store(dx + static_cast<int64_t>(p) * g.channels, gradient.template apply<kSilu>(mine, x[i], dy[i], residual[i]));
    }
  }
}

/// Pixels that a thread loads at once, of x and of dy.
constexpr int kBackwardBatch = 2;

/// The first of two passes: the sums of each tile.
template <typename T, int kVector, bool kSilu>
__global__ __launch_bounds__(kTwoPassThreads, 2) void norm_gradient_sums(NormBackward a) {
  __shared__ GradientSums<kVector, kTwoPassThreads> s;
  __shared__ Normalised normalised;
  const NormGrid& g = a.batch.grid;
  const Tile t(g, blockIdx.x);
  const int column = t.first_channel<kVector>(g);
  const T* const x = static_cast<const T*>(a.batch.x) + t.offset + column;
  const T* const dy = static_cast<const T*>(a.dy) + t.offset + column;
  int p = t.first_row<kVector>(g);
  Pack<T, kVector> x_batch[kBackwardBatch] = {};
  Pack<T, kVector> dy_batch[kBackwardBatch] = {};
  load_rows(x, g, p, t.pixels, x_batch);
  load_rows(dy, g, p, t.pixels, dy_batch);
  set_normalised(a.batch, t, normalised);
  const ThreadNormalised<kVector> mine(normalised, column);
  ThreadSums<kVector> sums;
  while (p < t.pixels) {
#pragma unroll
    for (int i = 0; i < kBackwardBatch; ++i) {
      if (p + i * g.rows < t.pixels) sums.template add<kSilu>(mine, x_batch[i], dy_batch[i]);
    }
    p += kBackwardBatch * g.rows;
    load_rows(x, g, p, t.pixels, x_batch);
    load_rows(dy, g, p, t.pixels, dy_batch);
  }
  sum_gradients(a, t, sums, s);
}

/// p and r of a group: the means, over its elements, of what its cells have. Called by `stride` threads with ranks
/// from 0 on, each of which gets its share of the sums.
struct GroupSums {
  double p = 0.0;
  double r = 0.0;

  __device__ GroupSums(const NormBackward& a, int image, int group, int rank, int stride) {
    for_cells_of_group(a.batch.grid, image, group, rank, stride, [&](int64_t i, double /*elements*/) {
      p += static_cast<double>(a.cells[i].p);
      r += static_cast<double>(a.cells[i].r);
    });
  }
};

/// The second of two passes, from the last tile to the first: what the first pass read last is still in the cache.
template <typename T, int kVector, bool kSilu, bool kResidual>
__global__ __launch_bounds__(kTwoPassThreads, 2) void norm_input_gradient(NormBackward a) {
  __shared__ float p_of_cell[kMaxSlabChannels];
  __shared__ float r_of_cell[kMaxSlabChannels];
  __shared__ Normalised normalised;
  const NormGrid& g = a.batch.grid;
  const Tile t(g, gridDim.x - 1 - blockIdx.x);
  const int column = t.first_channel<kVector>(g);
  const int64_t offset = t.offset + column;
  const T* const x = static_cast<const T*>(a.batch.x) + offset;
  const T* const dy = static_cast<const T*>(a.dy) + offset;
  T* const dx = static_cast<T*>(a.dx) + offset;
  int p = t.first_row<kVector>(g);
  Pack<T, kVector> x_batch[kBackwardBatch] = {};
  Pack<T, kVector> dy_batch[kBackwardBatch] = {};
  Pack<T, kVector> residual[kBackwardBatch] = {};
  const auto load_batch = [&] {
    load_rows(x, g, p, t.pixels, x_batch);
    load_rows(dy, g, p, t.pixels, dy_batch);
    if constexpr (kResidual) load_rows(static_cast<const T*>(a.residual_gradient) + offset, g, p, t.pixels, residual);
  };
  load_batch();
  for_cells(t.cells, [&](int cell, int rank) {
    const GroupSums share(a, t.image, t.first_group + (cell < t.cells ? cell : 0), rank, kTeam);
    const double sum_p = sum_over_team(share.p);
    const double sum_r = sum_over_team(share.r);
    if (cell >= t.cells || rank != 0) return;
    p_of_cell[cell] = static_cast<float>(sum_p / group_elements(g));
    r_of_cell[cell] = static_cast<float>(sum_r / group_elements(g));
  });
  set_normalised(a.batch, t, normalised);
  const ThreadNormalised<kVector> mine(normalised, column);
  const ThreadInputGradient<kVector, kResidual> gradient(t, p_of_cell, r_of_cell, column);
  while (p < t.pixels) {
#pragma unroll
    for (int i = 0; i < kBackwardBatch; ++i) {
      const int row = p + i * g.rows;
      if (row < t.pixels) {
        store(dx + static_cast<int64_t>(row) * g.channels,
              gradient.template apply<kSilu>(mine, x_batch[i], dy_batch[i], residual[i]));
      }
    }
    p += kBackwardBatch * g.rows;
    load_batch();
  }
}

}  // namespace ddpm::nn::cuda
