#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

#include "nn/ops/cuda/group_norm.h"
#include "nn/ops/cuda/group_norm_forward.cuh"
#include "nn/ops/cuda/group_norm_parameters.cuh"

namespace ddpm::nn::cuda {
namespace {

struct OnStream {
  cudaStream_t stream;

  template <typename... Arguments>
  void operator()(void (*kernel)(Arguments...), int64_t blocks, int threads, const Arguments&... arguments) const {
    kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(arguments...);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

void start_group_norm_forward(const NormForward& forward, cudaStream_t stream) {
  group_norm_forward(forward, OnStream{stream});
}

void start_group_norm_backward(const NormBackward& backward, cudaStream_t stream) {
  group_norm_backward(backward, OnStream{stream});
}

}  // namespace ddpm::nn::cuda
