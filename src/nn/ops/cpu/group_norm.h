// Group normalisation, modulation and SiLU on the CPU in two passes over the data, forward and backward: the CPU's
// implementation of the operators in nn/ops/group_norm_operator.h, which this library registers.
//
// Statistics and arithmetic are float32 (sums over more than some pixels float64). All sums are taken in an order that
// follows from the shape alone, so any number of threads gives the same bits.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "nn/ops/group_norm_types.h"

namespace ddpm::nn::cpu {

/// Whether the CPU has kernels for images of this dtype.
bool has_group_norm(at::ScalarType dtype);

/// The operators for images that are cut into tiles, of which this is one: statistics are those of all tiles. Gradients
/// of what is per channel are this tile's part of them. Whole images have no `tiles`. `in_any_order`: see
/// GroupNormOptions.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> tiled_group_norm(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after, int64_t groups,
    double eps, bool silu, bool in_any_order, const GatherNumbers& tiles);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> tiled_group_norm_backward(
    const at::Tensor& dy, const OptionalTensor& residual_gradient, const at::Tensor& x, const at::Tensor& weight,
    const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& mean, const at::Tensor& rstd, bool silu,
    const GatherNumbers& tiles);

}  // namespace ddpm::nn::cpu
