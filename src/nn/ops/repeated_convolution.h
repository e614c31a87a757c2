// The convolution of an image whose pixels were doubled along each axis, without making that image: upsampling, as
// inference computes it.
//
// Each pixel of the result sees 2 x 2 different pixels (of volumes 2 x 2 x 2) through a kernel of 3 x 3 (x 3), so that
// sums of weights take the place of weights, and 4/9 (8/27) of the products remain. It is a transposed convolution with
// stride 2 (Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016). Training does not use
// it: the sums would have to be made anew after each step, and their gradients taken apart again.
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/partition.h"

namespace ddpm::nn {

/// The sums: weight [O, C, 3, 3] or [O, C, 3, 3, 3] -> [C, O, 4, 4] or [C, O, 4, 4, 4], added in float32, in the type
/// of `weight`.
at::Tensor repeated_weight(const at::Tensor& weight);

/// x [N, C, H, W] -> [N, O, 2 H, 2 W], for a border of zeros; `weight` is a repeated_weight(), bias [O]. Of volumes the
/// layers lie one below the other, as in convolution().
at::Tensor repeated_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                const Partition& partition);

}  // namespace ddpm::nn
