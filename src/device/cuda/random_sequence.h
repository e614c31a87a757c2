// The numbers of base/random.h in CUDA kernels, bit for bit, drawn where they are used.
//
// The step is read from device memory, so that a captured launch can be replayed for another step. Normals are computed
// in double precision by the functions that the CPU has (base/box_muller.h); the operations are the same ones if
// nothing is fused, hence --fmad=false for what includes this. Include it after <cuda_runtime.h>.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "device/cuda/random_launch.h"

namespace ddpm::device::cuda {

/// The words of one image: base::RandomSequence, without its checks.
struct ImageSequence {
  uint64_t seed;
  uint32_t stream, step, position;

  __device__ ImageSequence(const Draw& draw, uint32_t image)
      : seed(draw.seed), stream(draw.stream), step(static_cast<uint32_t>(*draw.step)), position(draw.first + image) {}

  __device__ base::PhiloxWords block(uint32_t b) const {
    base::PhiloxWords words{b, position, step, stream};
    base::philox_rounds(seed, words);
    return words;
  }
  /// Element 0 as an integer in [0, n).
  __device__ uint32_t below(uint32_t n) const { return static_cast<uint32_t>((uint64_t{block(0).w0} * n) >> 32U); }
};

}  // namespace ddpm::device::cuda
