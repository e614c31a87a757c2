// Moves the gradients of many parameters to where they are summed. It is an operator of LibTorch's dispatcher, in the
// namespace "ddpm": libddpm_cuda.so has it for CUDA (parallel/cuda/gather.cu), where one launch serves many parameters.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddpm::parallel {

/// Writes each run of `from` (flat, in float32, bf16 or float16) to the run of `into` (flat, float32) with the same
/// index; with `add`, adds it there.
void gather_(at::TensorList into, at::TensorList from, bool add);

}  // namespace ddpm::parallel
