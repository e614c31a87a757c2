#include <cuda_runtime.h>

#include "nn/ops/cuda/column_sums.cuh"
#include "nn/ops/cuda/column_sums.h"
#include "nn/ops/cuda/on_stream.cuh"

namespace ddpm::nn::cuda {

void start_column_sums(const ColumnSums& sums, CUstream_st* stream) { column_sums(sums, OnStream{stream}); }

}  // namespace ddpm::nn::cuda
