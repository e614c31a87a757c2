// How a bias is added to images by nn/ops/channel_bias.h's operator on CUDA; part of libddpm_cuda.so.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_plan.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddpm::nn::cuda {

constexpr int kBiasThreads = 256;
constexpr int kBiasEach = 4;  ///< vectors for each thread, all on their way at once

/// All of one dtype, contiguous channels-last.
struct BiasAddition {
  void* sum;
  const void* a;
  const void* b;  ///< null: absent
  const void* bias;
  ElementType type;
  int32_t vector;    ///< values that a thread reads at once: 16 bytes, or one
  int32_t channels;  ///< in vectors
  int64_t count;     ///< vectors in all images
};

inline int64_t bias_blocks(const BiasAddition& a) {
  return plan::divide_up(a.count, int64_t{kBiasThreads} * kBiasEach);
}

/// Only queues work on `stream`. Throws c10::Error when the kernel cannot be started.
void start_bias_addition(const BiasAddition& addition, CUstream_st* stream);

}  // namespace ddpm::nn::cuda
