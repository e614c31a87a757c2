// How nn/ops/repeated_pixels.h's operators are started; part of libddpm_cuda.so.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_plan.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddpm::nn::cuda {

constexpr int kPixelThreads = 256;

/// Both images are contiguous channels-last; `from` and `to` are x and y, or dy and dx.
struct PixelRepetition {
  const void* from;
  void* to;
  ElementType type;
  int32_t vector;    ///< values that a thread reads at once: 16 bytes, or one
  int32_t channels;  ///< in vectors
  int32_t width;     ///< width of the smaller image
  int64_t count;     ///< vectors in the smaller image, one per thread
};

inline int64_t pixel_blocks(const PixelRepetition& r) { return plan::divide_up(r.count, kPixelThreads); }

/// Both only queue work on `stream`. They throw c10::Error when a kernel cannot be started.
void start_pixel_repetition(const PixelRepetition& repetition, CUstream_st* stream);
void start_pixel_sums(const PixelRepetition& repetition, CUstream_st* stream);

}  // namespace ddpm::nn::cuda
