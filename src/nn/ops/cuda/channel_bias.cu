#include <cuda_runtime.h>

#include "nn/ops/cuda/channel_bias.cuh"
#include "nn/ops/cuda/channel_bias.h"
#include "nn/ops/cuda/on_stream.cuh"

namespace ddpm::nn::cuda {

void start_bias_addition(const BiasAddition& addition, CUstream_st* stream) { add_bias(addition, OnStream{stream}); }

}  // namespace ddpm::nn::cuda
