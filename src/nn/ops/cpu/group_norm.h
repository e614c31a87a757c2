// Group normalisation, modulation and SiLU on the CPU in two passes over the data, forward and backward: one node of
// autograd's graph, which saves the input and recomputes the rest. See nn/ops/group_norm_silu.h for the operation.
//
// Statistics and arithmetic are float32 (sums over more than some pixels float64). All sums are taken in an order that
// follows from the shape alone: the same bits for any number of threads.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/ops/group_norm_silu.h"

namespace ddpm::nn::cpu {

/// Whether group_norm() takes these, but for their device: channels-last x in float32 or bfloat16, and SiLU or no
/// activation.
bool takes_group_norm(const at::Tensor& x, const GroupNormOptions& options);

/// The result has the dtype and memory order of x; gradients have their tensors' dtypes.
at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const GroupNormOptions& options, const Modulation& modulation);

/// What group_norm() saves for backward: x, weight and bias, the modulation, mean and 1/σ.
std::vector<at::Tensor> saved_by_group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                            const GroupNormOptions& options, const Modulation& modulation);

}  // namespace ddpm::nn::cpu
