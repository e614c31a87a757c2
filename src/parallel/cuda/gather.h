// Starts the CUDA kernel of parallel/gather.h; part of libddpm_cuda.so.
#pragma once

#include "parallel/cuda/gather_launch.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddpm::parallel::cuda {

/// Only queues work on `stream`. Throws c10::Error when the kernel cannot be started.
void start_gather(const GatherBatch& batch, CUstream_st* stream);

}  // namespace ddpm::parallel::cuda
