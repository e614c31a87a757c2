// Turns tensors into the arguments of group normalisation's kernels: checks, layouts, results and workspace. The caller
// says how kernels are started, so that tests run the same code on CPU tensors.
#pragma once

#include <functional>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "nn/ops/cuda/group_norm.h"
#include "nn/ops/group_norm_operator.h"

namespace ddpm::nn::cuda {

/// Throws base::InternalError for what no kernel takes.
ElementType element_type(const at::Tensor& t);

/// Does what NormForwardOperator does (nn/ops/group_norm_operator.h). Throws base::InternalError for layouts and dtypes
/// that the kernels do not take.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> group_norm_forward_tensors(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after, int64_t groups,
    double eps, bool silu, const std::function<void(const NormForward&)>& start);

/// Does what NormBackwardOperator does.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> group_norm_backward_tensors(
    const at::Tensor& dy, const OptionalTensor& residual_gradient, const at::Tensor& x, const at::Tensor& weight,
    const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& mean, const at::Tensor& rstd, bool silu,
    const std::function<void(const NormBackward&)>& start);

}  // namespace ddpm::nn::cuda
