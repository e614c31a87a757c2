// Normals are computed in double precision by the functions that the CPU has (base/box_muller.h). Their operations are
// the same ones if nothing is fused: --fmad=false.
#include <c10/cuda/CUDAException.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "device/cuda/random_kernels.h"
#include "device/cuda/random_launch.h"

namespace ddpm::device::cuda {

void start_timesteps(const Draw& draw, uint32_t images, uint32_t num_train_timesteps, int64_t* out,
                     cudaStream_t stream) {
  timesteps_kernel<<<timestep_blocks(images), kDrawThreads, 0, stream>>>(draw, images, num_train_timesteps, out);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void start_normals(const Draw& draw, const OffsetNoise& offset, const TilePlan& plan, uint32_t images, float* out,
                   cudaStream_t stream) {
  normals_kernel<<<images * plan.tiles(), kDrawThreads, 0, stream>>>(draw, offset, plan, out);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename Out>
void start_dropout_mask(const Draw& draw, double p, const TilePlan& plan, uint32_t images, Out* out,
                        cudaStream_t stream) {
  dropout_mask_kernel<Out><<<images * plan.tiles(), kDrawThreads, 0, stream>>>(
      draw, static_cast<float>(p), static_cast<float>(1.0 / (1.0 - p)), plan, out);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template void start_dropout_mask(const Draw&, double, const TilePlan&, uint32_t, float*, cudaStream_t);
template void start_dropout_mask(const Draw&, double, const TilePlan&, uint32_t, c10::BFloat16*, cudaStream_t);
template void start_dropout_mask(const Draw&, double, const TilePlan&, uint32_t, c10::Half*, cudaStream_t);

}  // namespace ddpm::device::cuda
