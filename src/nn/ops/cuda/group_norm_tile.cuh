// What the CUDA kernels of group normalisation share: a block's tile, access to its values, and sums over them.
//
// Sums are float32 within a tile, of values relative to one of the tile's own, and taken in a fixed order, without
// atomics; sums of tiles are added in float64. This is device code: include it after <cuda_runtime.h>, or after what a
// test puts in its place.
#pragma once

#include <cstdint>
#include <cstring>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "nn/ops/cuda/group_norm_work.h"

namespace ddpm::nn::cuda {

/// A vector of channels, loaded and stored at once.
template <typename T, int kVector>
struct alignas(sizeof(T) * kVector) Pack {
  T values[kVector];

  __device__ __forceinline__ float get(int v) const { return static_cast<float>(values[v]); }
  __device__ __forceinline__ void set(int v, float value) { values[v] = static_cast<T>(value); }
};

/// bfloat16 in pairs, the upper halves of floats: as single values the compiler would keep them all unpacked.
template <>
struct alignas(16) Pack<c10::BFloat16, 8> {
  uint32_t pairs[4];

  __device__ __forceinline__ float get(int v) const {
    const uint32_t bits = v % 2 == 0 ? pairs[v / 2] << 16 : pairs[v / 2] & 0xffff0000U;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  }
  __device__ __forceinline__ void set(int v, float value) {
    const uint32_t bits = c10::BFloat16(value).x;
    pairs[v / 2] = v % 2 == 0 ? bits : pairs[v / 2] | bits << 16;  // in ascending order
  }
};

template <int kVector, typename T>
__device__ __forceinline__ Pack<T, kVector> load(const T* from) {
  return *reinterpret_cast<const Pack<T, kVector>*>(from);
}

template <int kVector, typename T>
__device__ __forceinline__ void store(T* to, const Pack<T, kVector>& pack) {
  *reinterpret_cast<Pack<T, kVector>*>(to) = pack;
}

/// The thread's next pixels, from `pixel` on, of those before `pixels`.
template <typename T, int kVector, int kCount>
__device__ __forceinline__ void load_rows(const T* x, const NormGrid& g, int pixel, int pixels,
                                          Pack<T, kVector> (&packs)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int p = pixel + i * g.rows;
    if (p < pixels) packs[i] = load<kVector>(x + static_cast<int64_t>(p) * g.channels);
  }
}

template <typename T, int kVector>
__device__ __forceinline__ Pack<T, kVector> sum_of(const Pack<T, kVector>& a, const Pack<T, kVector>& b) {
  Pack<T, kVector> sum = {};
  for (int v = 0; v < kVector; ++v) sum.set(v, a.get(v) + b.get(v));
  return sum;
}

__device__ inline float value_at(const Values& v, int image, int channel) {
  if (v.data == nullptr) return 0.0F;
  const int64_t i = image * v.image_stride + channel;
  if (v.type == ElementType::float32) return static_cast<const float*>(v.data)[i];
  if (v.type == ElementType::bfloat16) return static_cast<float>(static_cast<const c10::BFloat16*>(v.data)[i]);
  return static_cast<float>(static_cast<const c10::Half*>(v.data)[i]);
}

/// Nothing happens where the result is absent.
__device__ inline void put(const Results& r, int image, int channel, double value) {
  if (r.data == nullptr) return;
  const int64_t i = image * r.image_stride + channel;
  const auto rounded = static_cast<float>(value);
  if (r.type == ElementType::float32) {
    static_cast<float*>(r.data)[i] = rounded;
  } else if (r.type == ElementType::bfloat16) {
    static_cast<c10::BFloat16*>(r.data)[i] = static_cast<c10::BFloat16>(rounded);
  } else {
    static_cast<c10::Half*>(r.data)[i] = static_cast<c10::Half>(rounded);
  }
}

/// The part of a batch that block `block` works on, and the calling thread's place in it.
struct Tile {
  __device__ Tile(const NormGrid& g, unsigned block) {
    const int run = static_cast<int>(block) / g.slabs;
    slab = static_cast<int>(block) % g.slabs;
    chunk = run % g.chunks;
    image = run / g.chunks;
    const int group_channels = g.channels / g.groups;
    if (g.parts == 1) {
      channel = slab * g.slab_channels;
      channels = least(g.slab_channels, g.channels - channel);
      cell_channels = group_channels;
    } else {
      const int inside = slab % g.parts * g.slab_channels;
      channel = slab / g.parts * group_channels + inside;
      channels = least(g.slab_channels, group_channels - inside);
      cell_channels = channels;
    }
    cells = channels / cell_channels;
    first_cell = g.parts == 1 ? channel / group_channels : slab;
    first_group = channel / group_channels;
    const int first_pixel = chunk * g.chunk_pixels;
    pixels = least(g.chunk_pixels, g.pixels - first_pixel);
    offset = (static_cast<int64_t>(image) * g.pixels + first_pixel) * g.channels + channel;
  }

  /// The thread's first pixel; `pixels` for a thread that has none.
  template <int kVector>
  __device__ int first_row(const NormGrid& g) const {
    const int row = static_cast<int>(threadIdx.x) / g.columns;
    return row < g.rows && first_channel<kVector>(g) < channels ? row : pixels;
  }
  /// The first channel of the thread's column, from the tile's first on.
  template <int kVector>
  __device__ int first_channel(const NormGrid& g) const {
    return static_cast<int>(threadIdx.x) % g.columns * kVector;
  }
  /// The index of this tile's first cell among the partial sums of all tiles.
  __device__ int64_t cell_index(const NormGrid& g) const {
    return (static_cast<int64_t>(image) * g.chunks + chunk) * g.groups * g.parts + first_cell;
  }

  int image;
  int chunk;
  int slab;
  int channel;   ///< first channel of the tile
  int channels;  ///< how many channels the tile has
  int cells;     ///< groups, or one piece of a group
  int cell_channels;
  int first_cell;  ///< in an image
  int first_group;
  int pixels;
  int64_t offset;  ///< index of the tile's first value

 private:
  static __device__ int least(int a, int b) { return a < b ? a : b; }
};

/// Shared memory for sum_over_rows().
template <int kVector, int kThreads>
struct RowSums {
  float values[kVector * (kThreads + kMaxColumns)];
};

/// totals[c] = the sum, over the threads of c's column, of what they give for channel c of the tile. All threads of the
/// block call it; totals can be read by all afterwards.
template <int kVector, int kThreads>
__device__ void sum_over_rows(const NormGrid& g, const float (&mine)[kVector], RowSums<kVector, kThreads>& scratch,
                              float* totals) {
  const int threads = g.columns * g.rows;
  const int pitch = (threads + kWarp - 1) / kWarp * kWarp + g.columns;  // neighbours of a warp meet other banks
  const int me = static_cast<int>(threadIdx.x);
  const int width = g.columns * kVector;
  // Where channels are few, several threads share one.
  int shares = threads / width;
  if (shares < 1) shares = 1;
  __syncthreads();
  if (me < threads) {
    for (int v = 0; v < kVector; ++v) scratch.values[v * pitch + me] = mine[v];
  }
  __syncthreads();
  for (int i = me; i < width * shares; i += static_cast<int>(blockDim.x)) {
    float* const column = scratch.values + i % width / g.columns * pitch + i % g.columns;
    const int share = i / width;
    float sum = column[share * g.columns];
    for (int row = share + shares; row < g.rows; row += shares) sum += column[row * g.columns];
    column[share * g.columns] = sum;  // no other thread reads this row
  }
  __syncthreads();
  for (int i = me; i < width; i += static_cast<int>(blockDim.x)) {
    const float* const column = scratch.values + i / g.columns * pitch + i % g.columns;
    float sum = column[0];
    for (int share = 1; share < shares; ++share) sum += column[share * g.columns];
    totals[i % g.columns * kVector + i / g.columns] = sum;
  }
  __syncthreads();
}

/// Threads that share the work of a cell; neighbours in a warp.
constexpr int kTeam = 8;

/// All threads of a team get the same bits.
template <typename T>
__device__ T sum_over_team(T value) {
  for (int step = kTeam / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

/// Calls body(cell, rank) for each of `cells` cells by a whole team, whose threads have ranks 0 to kTeam - 1. All
/// threads of the block call it, and body with cells up to a multiple of the block's teams: not all exist.
template <typename Body>
__device__ void for_cells(int cells, const Body& body) {
  const int teams = static_cast<int>(blockDim.x) / kTeam;
  const int rank = static_cast<int>(threadIdx.x) % kTeam;
  for (int first = 0; first < cells; first += teams) body(first + static_cast<int>(threadIdx.x) / kTeam, rank);
}

/// sums[cell] = Σ value(c) over its channels c. All threads of the block call it; no barrier at its end.
template <typename Value>
__device__ void sum_over_cells(const Tile& t, const Value& value, float* sums) {
  for_cells(t.cells, [&](int cell, int rank) {
    float sum = 0.0F;
    if (cell < t.cells) {
      const int end = (cell + 1) * t.cell_channels;
      for (int c = cell * t.cell_channels + rank; c < end; c += kTeam) sum += value(c);
    }
    sum = sum_over_team(sum);
    if (cell < t.cells && rank == 0) sums[cell] = sum;
  });
}

/// Elements of the cell in which `part` of a group's pieces has its share of chunk `chunk`.
__device__ inline double cell_elements(const NormGrid& g, int chunk, int part) {
  const int group = g.channels / g.groups;
  const int pixels = g.pixels - chunk * g.chunk_pixels;
  const int channels = g.parts == 1 ? group : group - part * g.slab_channels;
  return static_cast<double>(pixels < g.chunk_pixels ? pixels : g.chunk_pixels) *
         static_cast<double>(g.parts == 1 || channels < g.slab_channels ? channels : g.slab_channels);
}

__device__ inline double group_elements(const NormGrid& g) {
  return static_cast<double>(g.channels / g.groups) * static_cast<double>(g.pixels);
}

/// Calls body(index of the cell among all, its elements) for the cells of a group that are the turn of thread `rank` of
/// `threads`.
template <typename Body>
__device__ void for_cells_of_group(const NormGrid& g, int image, int group, int rank, int threads, const Body& body) {
  for (int i = rank; i < g.chunks * g.parts; i += threads) {
    const int chunk = i / g.parts;
    const int part = i % g.parts;
    const int64_t run = static_cast<int64_t>(image) * g.chunks + chunk;
    body((run * g.groups + group) * g.parts + part, cell_elements(g, chunk, part));
  }
}

/// Calls body.operator()<element type, channels per load>().
template <typename Body>
void for_types(ElementType type, int vector, const Body& body) {
  const auto for_type = [&]<typename T>(T* /*of*/) {
    constexpr int kWide = 16 / sizeof(T);
    return vector == 1 ? body.template operator()<T, 1>() : body.template operator()<T, kWide>();
  };
  switch (type) {
    case ElementType::float32:
      return for_type(static_cast<float*>(nullptr));
    case ElementType::bfloat16:
      return for_type(static_cast<c10::BFloat16*>(nullptr));
    case ElementType::float16:
      return for_type(static_cast<c10::Half*>(nullptr));
  }
}

/// Calls body.operator()<element type, channels per load, silu, residual>().
template <typename Body>
void for_kernels(ElementType type, int vector, bool silu, bool residual, const Body& body) {
  for_types(type, vector, [&]<typename T, int kVector>() {
    if (silu)
      return residual ? body.template operator()<T, kVector, true, true>()
                      : body.template operator()<T, kVector, true, false>();
    return residual ? body.template operator()<T, kVector, false, true>()
                    : body.template operator()<T, kVector, false, false>();
  });
}

__device__ __forceinline__ float sigmoid(float u) { return __fdividef(1.0F, 1.0F + __expf(-u)); }

}  // namespace ddpm::nn::cuda
