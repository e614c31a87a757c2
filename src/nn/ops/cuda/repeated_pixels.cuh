// The CUDA kernels of nn/ops/repeated_pixels.h. Include it after CUDA's runtime header; tests run them on a CPU.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_tile.cuh"
#include "nn/ops/cuda/repeated_pixels.h"

namespace ddpm::nn::cuda {

/// Where, in vectors, the first of the four pixels lies for vector `at` of the smaller image.
__device__ inline int64_t first_of_four(const PixelRepetition& r, int64_t at) {
  const int64_t pixel = at / r.channels;
  const int64_t row = pixel / r.width;
  return (4 * row * r.width + 2 * (pixel - row * r.width)) * r.channels + at - pixel * r.channels;
}

template <typename T, int kVector>
__global__ __launch_bounds__(kPixelThreads) void repeat_pixels(PixelRepetition r) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kPixelThreads + threadIdx.x;
  if (at >= r.count) return;
  const Pack<T, kVector> pack = load<kVector>(static_cast<const T*>(r.from) + at * kVector);
  T* const to = static_cast<T*>(r.to) + first_of_four(r, at) * kVector;
  const int64_t right = static_cast<int64_t>(r.channels) * kVector;
  const int64_t below = 2 * r.width * right;
  store(to, pack);
  store(to + right, pack);
  store(to + below, pack);
  store(to + below + right, pack);
}

template <typename T, int kVector>
__global__ __launch_bounds__(kPixelThreads) void sum_repeated_pixels(PixelRepetition r) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kPixelThreads + threadIdx.x;
  if (at >= r.count) return;
  const T* const from = static_cast<const T*>(r.from) + first_of_four(r, at) * kVector;
  const int64_t right = static_cast<int64_t>(r.channels) * kVector;
  const int64_t below = 2 * r.width * right;
  const Pack<T, kVector> a = load<kVector>(from);
  const Pack<T, kVector> b = load<kVector>(from + right);
  const Pack<T, kVector> c = load<kVector>(from + below);
  const Pack<T, kVector> d = load<kVector>(from + below + right);
  Pack<T, kVector> sum = {};
  for (int v = 0; v < kVector; ++v) sum.set(v, (a.get(v) + b.get(v)) + (c.get(v) + d.get(v)));
  store(static_cast<T*>(r.to) + at * kVector, sum);
}

/// Both call launch(kernel, blocks, threads, arguments...).
template <typename Launch>
void repeat_pixels(const PixelRepetition& r, const Launch& launch) {
  for_types(r.type, r.vector,
            [&]<typename T, int kVector>() { launch(repeat_pixels<T, kVector>, pixel_blocks(r), kPixelThreads, r); });
}

template <typename Launch>
void sum_repeated_pixels(const PixelRepetition& r, const Launch& launch) {
  for_types(r.type, r.vector, [&]<typename T, int kVector>() {
    launch(sum_repeated_pixels<T, kVector>, pixel_blocks(r), kPixelThreads, r);
  });
}

}  // namespace ddpm::nn::cuda
