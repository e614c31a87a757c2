// Convolutions of volumes in bfloat16 on CPUs that multiply bfloat16.
//
// LibTorch 2.11's (oneDNN's) are not sound on processors with AMX: the gradient of the weights writes outside of its
// memory where a volume has few planes (1 to 8 of 96 x 96 pixels), and results are undefined where a volume of one
// plane has fewer than 8 channels. The other results and the gradients of images are right, so these are computed in
// bfloat16; the gradient of the weights is computed in float32, of some planes at a time. All other volumes in two
// bytes are convolved in float32 (float_products.h).
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// Whether a CPU convolves volumes by `weight` [O, C, D, H, W] so.
bool has_volume_products(const at::Tensor& weight);

/// Computes what at::conv3d does.
at::Tensor volume_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                              at::IntArrayRef padding);

/// The gradients of x, weight and bias, of those that are wanted; the last two in float32.
std::array<at::Tensor, 3> volume_gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                           int64_t stride, at::IntArrayRef padding, std::array<bool, 3> wanted);

/// Bytes that the backward pass of a convolution by `weight` takes on CPUs because it computes in float32: of volumes
/// in two bytes, which together have so many pixels, in `depth` planes.
int64_t volume_copy_bytes(const at::Tensor& weight, int64_t pixels, int64_t depth);

}  // namespace ddpm::nn
