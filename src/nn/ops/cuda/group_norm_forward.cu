#include <cuda_runtime.h>

#include "nn/ops/cuda/group_norm.h"
#include "nn/ops/cuda/group_norm_forward.cuh"
#include "nn/ops/cuda/on_stream.cuh"

namespace ddpm::nn::cuda {

void start_group_norm_forward(const NormForward& forward, cudaStream_t stream) {
  group_norm_forward(forward, OnStream{stream});
}

}  // namespace ddpm::nn::cuda
