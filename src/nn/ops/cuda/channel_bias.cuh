// The CUDA kernel of nn/ops/channel_bias.h. Include it after CUDA's runtime header; tests run it on a CPU.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/channel_bias.h"
#include "nn/ops/cuda/group_norm_tile.cuh"

namespace ddpm::nn::cuda {

template <typename T, int kVector>
__global__ __launch_bounds__(kBiasThreads) void add_bias(BiasAddition x) {
  const T* const a = static_cast<const T*>(x.a);
  const T* const b = static_cast<const T*>(x.b);
  const T* const bias = static_cast<const T*>(x.bias);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kBiasThreads * kBiasEach) + threadIdx.x;
  Pack<T, kVector> of_a[kBiasEach] = {};
  Pack<T, kVector> of_b[kBiasEach] = {};
#pragma unroll
  for (int i = 0; i < kBiasEach; ++i) {
    const int64_t at = first + i * kBiasThreads;
    if (at >= x.count) break;
    of_a[i] = load<kVector>(a + at * kVector);
    if (b != nullptr) of_b[i] = load<kVector>(b + at * kVector);
  }
#pragma unroll
  for (int i = 0; i < kBiasEach; ++i) {
    const int64_t at = first + i * kBiasThreads;
    if (at >= x.count) break;
    const Pack<T, kVector> of_bias = load<kVector>(bias + at % x.channels * kVector);
    Pack<T, kVector> sum = {};
    for (int v = 0; v < kVector; ++v) sum.set(v, of_a[i].get(v) + of_b[i].get(v) + of_bias.get(v));
    store(static_cast<T*>(x.sum) + at * kVector, sum);
  }
}

/// Calls launch(kernel, blocks, threads, arguments...).
template <typename Launch>
void add_bias(const BiasAddition& a, const Launch& launch) {
  for_types(a.type, a.vector,
            [&]<typename T, int kVector>() { launch(add_bias<T, kVector>, bias_blocks(a), kBiasThreads, a); });
}

}  // namespace ddpm::nn::cuda
