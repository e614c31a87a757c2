// Group normalisation with what surrounds it in a residual block, as one operation:
//
//   y = act(GN(x + shift_before) * (1 + scale) + shift_after)
//   GN(x) = (x - mean) / sqrt(var + eps) * weight + bias,   mean and var over the pixels and channels of a group
//
// Where it stands at the head of a residual connection, x comes as two addends and is a second result: the addition,
// and in backward that of the gradients that reach x by the connection, cost no pass over memory of their own.
//
// Wu, He: "Group normalization", 2018. The modulation carries the time embedding: shift_before is the "default" form of
// diffusers' ResnetBlock2D, scale and shift_after the "scale_shift" form (Dhariwal, Nichol 2021).
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/ops/group_norm_types.h"
#include "nn/partition.h"

namespace ddpm::nn {

/// x [N, C, H, W] in any floating dtype; weight and bias [C]. Statistics are float32 whatever the dtype. The result has
/// the dtype and memory order of x.
at::Tensor group_norm_silu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const GroupNormOptions& options, const Modulation& modulation, const Partition& partition);

/// The sum of the branches.
at::Tensor joined(const Branches& branches);

/// Computes group_norm_silu() of joined(branches), with its bits (on CUDA if both begin at multiples of 16 bytes).
NormalisedSum residual_group_norm_silu(const Branches& branches, const at::Tensor& weight, const at::Tensor& bias,
                                       const GroupNormOptions& options, const Modulation& modulation,
                                       const Partition& partition);

}  // namespace ddpm::nn
