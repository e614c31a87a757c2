// Starts the CUDA kernels of group normalisation; part of libddpm_cuda.so. See nn/ops/group_norm_silu.h for the
// operation. All pointers are to device memory; images are contiguous channels-last.
#pragma once

#include "nn/ops/cuda/group_norm_work.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddpm::nn::cuda {

/// Both only queue work on `stream`. They throw c10::Error when a kernel cannot be started.
void start_group_norm_forward(const NormForward& forward, CUstream_st* stream);
void start_group_norm_backward(const NormBackward& backward, CUstream_st* stream);

}  // namespace ddpm::nn::cuda
