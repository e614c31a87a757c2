#include <cuda_runtime.h>

#include "nn/ops/cuda/group_norm.h"
#include "nn/ops/cuda/group_norm_parameters.cuh"
#include "nn/ops/cuda/on_stream.cuh"

namespace ddpm::nn::cuda {

void start_group_norm_backward(const NormBackward& backward, cudaStream_t stream) {
  group_norm_backward(backward, OnStream{stream});
}

}  // namespace ddpm::nn::cuda
