#include <c10/cuda/CUDAException.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "device/cuda/batch_kernels.h"
#include "device/cuda/batch_launch.h"

namespace ddpm::device::cuda {

template <typename Stored>
void start_model_images(const Draw& coins, StoredImages images, uint32_t count, const Stored* from, float* to,
                        cudaStream_t stream) {
  images.whole = fours_are_whole(from, images.elements) && fours_are_whole(to, images.elements);
  const uint32_t blocks = count * chunks_of(images.elements);
  model_images_kernel<Stored><<<blocks, kBatchThreads, 0, stream>>>(coins, images, from, to);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template void start_model_images(const Draw&, StoredImages, uint32_t, const uint8_t*, float*, cudaStream_t);
template void start_model_images(const Draw&, StoredImages, uint32_t, const float*, float*, cudaStream_t);

template <typename Out>
void start_blend(const Blend& blend, uint32_t count, uint32_t elements, Out* to, cudaStream_t stream) {
  const bool whole =
      fours_are_whole(blend.x, elements) && fours_are_whole(blend.y, elements) && fours_are_whole(to, elements);
  blend_kernel<Out><<<count * chunks_of(elements), kBatchThreads, 0, stream>>>(blend.x, blend.y, blend.t, blend.of_x,
                                                                               blend.of_y, elements, whole, to);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template void start_blend(const Blend&, uint32_t, uint32_t, float*, cudaStream_t);
template void start_blend(const Blend&, uint32_t, uint32_t, c10::BFloat16*, cudaStream_t);
template void start_blend(const Blend&, uint32_t, uint32_t, c10::Half*, cudaStream_t);

void start_loss_row(const float* losses, const int64_t* place, uint32_t images, int64_t places, double* row,
                    cudaStream_t stream) {
  loss_row_kernel<<<1, kLossThreads, 0, stream>>>(losses, place, images, places, row);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace ddpm::device::cuda
