// Convolution of tiles while the borders of their neighbours travel.
//
// A convolution is linear in its pixels: what a tile between zeros makes is computed at once, and what the pixels
// beside it add along its border follows when they have come. Backward, the gradients of pixels beside the tile are
// computed and sent first, and the large products run while those of the own border are on their way. Nothing but the
// tile and the pixels beside it is kept for backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/partition.h"

namespace ddpm::nn {

/// x [N, C, H, W] or [N, C, D, H, W]: a tile, weight [O, C, 3, 3] or [O, C, 3, 3, 3], bias [O] or undefined. The kernel
/// looks one pixel beyond the tile on both sides, without strides: the result is [N, O, H, W] or [N, O, D, H, W]. In
/// reduced precision pixels along the border are rounded once for each piece. `partition` outlives the graph. Second
/// derivatives are not defined.
at::Tensor halo_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const Partition& partition);

}  // namespace ddpm::nn
