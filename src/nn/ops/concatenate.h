// Joins what comes up a UNet with what crosses it.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// x [N, C, H, W] and skip [N, D, H, W] -> [N, C + D, H, W]. The gradient of x is contiguous channels-last: it is read
/// by several operations, each of which would copy a part of a wider one.
at::Tensor concatenate(const at::Tensor& x, const at::Tensor& skip);

}  // namespace ddpm::nn
