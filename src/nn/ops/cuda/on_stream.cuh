// Starts kernels of nn/ops/cuda, as their plans say.
#pragma once

#include <cstdint>

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

namespace ddpm::nn::cuda {

struct OnStream {
  cudaStream_t stream;

  template <typename... Arguments>
  void operator()(void (*kernel)(Arguments...), int64_t blocks, int threads, const Arguments&... arguments) const {
    kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(arguments...);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace ddpm::nn::cuda
