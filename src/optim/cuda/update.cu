#include <c10/cuda/CUDAException.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cuda_runtime.h>

#include "optim/cuda/update_kernels.cuh"
#include "optim/cuda/update_launch.h"

namespace ddpm::optim {

void start_squares(const SquaresBatch& batch, double* of_blocks, double* of_runs, cudaStream_t stream) {
  if (batch.count == 0) return;
  block_squares_kernel<<<static_cast<unsigned>(norm_grid(batch)), kNormThreads, 0, stream>>>(batch, of_blocks);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  run_tree_kernel<<<static_cast<unsigned>(batch.runs), kTreeThreads, 0, stream>>>(batch, of_blocks, of_runs);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void start_total_squares(const SquaresBatch& batch, const double* of_runs, bool first, bool last, double replicas,
                         double* sums, cudaStream_t stream) {
  total_squares_kernel<<<1, kTreeThreads, 0, stream>>>(batch, of_runs, first, last, replicas, sums);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void start_begin_update(const UpdateRules& rules, const ScheduleRows& rows, double* record, float* scalars,
                        cudaStream_t stream) {
  begin_update_kernel<<<1, 1, 0, stream>>>(rules, rows, record, scalars);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename Working, bool kWeights>
void start_flat_update(const UpdateBatch& batch, const float* scalars, cudaStream_t stream) {
  flat_update_kernel<Working, kWeights>
      <<<static_cast<unsigned>(batch.chunks), kUpdateThreads, 0, stream>>>(batch, scalars);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template void start_flat_update<float, true>(const UpdateBatch&, const float*, cudaStream_t);
template void start_flat_update<float, false>(const UpdateBatch&, const float*, cudaStream_t);
template void start_flat_update<c10::BFloat16, true>(const UpdateBatch&, const float*, cudaStream_t);
template void start_flat_update<c10::Half, true>(const UpdateBatch&, const float*, cudaStream_t);

}  // namespace ddpm::optim
