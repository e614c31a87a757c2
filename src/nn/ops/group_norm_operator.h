// Group normalisation with modulation and SiLU as one node of autograd's graph, on every device that has kernels for
// it: two operators of LibTorch's dispatcher, ddpm::group_norm_silu and ddpm::group_norm_silu_backward. The CPU's are
// in nn/ops/cpu, CUDA's in nn/ops/cuda (part of libddpm_cuda.so), the meta device's here.
//
// See nn/ops/group_norm_silu.h for the operation. All tensors of the operators are contiguous channels-last images, or
// per channel. Backward saves x (the sum, where there is a residual), weight, bias, the modulation, and mean and 1/σ
// [N, groups] in float32; it recomputes the rest. Gradients have their tensors' dtypes.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "nn/ops/group_norm_types.h"
#include "nn/partition.h"

namespace ddpm::nn {

/// y, addend + residual (undefined without residual), mean and 1/σ
using NormForwardOperator = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after, int64_t groups,
    double eps, bool silu);

/// The gradients of x, weight, bias, shift_before, scale and shift_after; undefined where the tensor is absent.
/// `residual_gradient` has reached x by the residual connection, and is added to dx.
using NormBackwardOperator = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& dy, const OptionalTensor& residual_gradient, const at::Tensor& x, const at::Tensor& weight,
    const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& mean, const at::Tensor& rstd, bool silu);

/// The branches are alike, contiguous channels-last and not empty, the activation SiLU or none; the device's kernels
/// know their dtype. The results are like them, x undefined unless `with_x`. There is no second derivative.
/// Where images are cut into tiles (on CPUs only), `partition` outlives the graph.
NormalisedSum fused_group_norm(const Branches& branches, const at::Tensor& weight, const at::Tensor& bias,
                               const GroupNormOptions& options, const Modulation& modulation,
                               const Partition& partition, bool with_x);

}  // namespace ddpm::nn
