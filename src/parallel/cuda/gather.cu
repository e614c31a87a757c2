#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

#include "parallel/cuda/gather.h"
#include "parallel/cuda/gather_kernel.cuh"

namespace ddpm::parallel::cuda {

void start_gather(const GatherBatch& batch, CUstream_st* stream) {
  gather_kernel<<<static_cast<unsigned>(batch.chunks), kGatherThreads, 0, stream>>>(batch);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace ddpm::parallel::cuda
