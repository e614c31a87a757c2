// The CUDA kernel of parallel/gather.h. Include it after CUDA's runtime header; tests run it on a CPU.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "parallel/cuda/gather_launch.h"

namespace ddpm::parallel::cuda {

template <typename T>
struct alignas(sizeof(T) * kGatherVector) GatherPack {
  T x[kGatherVector];
};

/// `size` elements of a chunk, by all threads of a block.
template <typename T>
__device__ inline void gather_chunk(const T* from, float* into, int size, bool aligned, bool add) {
  const int in_vectors = aligned ? size / kGatherVector * kGatherVector : 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) * kGatherVector; i < in_vectors; i += kGatherThreads * kGatherVector) {
    const GatherPack<T> values = *reinterpret_cast<const GatherPack<T>*>(from + i);
    GatherPack<float> sum = {};
    if (add) sum = *reinterpret_cast<const GatherPack<float>*>(into + i);
    for (int e = 0; e < kGatherVector; ++e) {
      const auto value = static_cast<float>(values.x[e]);
      sum.x[e] = add ? sum.x[e] + value : value;  // not 0 + value: that has no negative zero
    }
    *reinterpret_cast<GatherPack<float>*>(into + i) = sum;
  }
  for (int i = in_vectors + static_cast<int>(threadIdx.x); i < size; i += kGatherThreads) {
    const auto value = static_cast<float>(from[i]);
    into[i] = add ? into[i] + value : value;
  }
}

__global__ void __launch_bounds__(kGatherThreads) gather_kernel(const __grid_constant__ GatherBatch batch) {
  const int64_t chunk = blockIdx.x;
  int index = 0;
  for (int step = 64; step > 0; step /= 2) {  // the last piece that begins at or before this chunk
    if (index + step < batch.count && batch.first_chunk[index + step] <= chunk) index += step;
  }
  const GatherPiece& piece = batch.pieces[index];
  const int64_t begin = (chunk - batch.first_chunk[index]) * kGatherChunk;
  const int64_t left = piece.size - begin;
  const int size = static_cast<int>(left < kGatherChunk ? left : kGatherChunk);
  float* const into = piece.into + begin;
  const bool aligned = batch.aligned[index];
  switch (batch.types[index]) {
    case GatherType::float32:
      return gather_chunk(static_cast<const float*>(piece.from) + begin, into, size, aligned, batch.add);
    case GatherType::bfloat16:
      return gather_chunk(static_cast<const c10::BFloat16*>(piece.from) + begin, into, size, aligned, batch.add);
    case GatherType::float16:
      return gather_chunk(static_cast<const c10::Half*>(piece.from) + begin, into, size, aligned, batch.add);
  }
}

}  // namespace ddpm::parallel::cuda
