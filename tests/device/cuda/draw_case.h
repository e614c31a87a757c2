// What the tests of the CUDA kernels that draw random numbers draw from.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "device/cuda/random_kernels.h"

namespace ddpm::device::cuda {

inline constexpr uint64_t kSeed = 0xFEDCBA9876543210U;
inline constexpr int64_t kStep = 41;
inline constexpr uint32_t kFirst = 1000;

inline Draw draw_from(base::Stream stream, const int64_t* step = &kStep) {
  return {.step = step, .seed = kSeed, .stream = static_cast<uint32_t>(stream), .first = kFirst};
}

}  // namespace ddpm::device::cuda
