#include <cuda_runtime.h>

#include "nn/ops/cuda/on_stream.cuh"
#include "nn/ops/cuda/repeated_pixels.cuh"
#include "nn/ops/cuda/repeated_pixels.h"

namespace ddpm::nn::cuda {

void start_pixel_repetition(const PixelRepetition& repetition, CUstream_st* stream) {
  repeat_pixels(repetition, OnStream{stream});
}

void start_pixel_sums(const PixelRepetition& repetition, CUstream_st* stream) {
  sum_repeated_pixels(repetition, OnStream{stream});
}

}  // namespace ddpm::nn::cuda
