// Matrix products in reduced precision on processors that have none: computed in float32, kept in the given dtype.
//
// Without AVX-512 (float16: AVX512-FP16; on ARM the bf16 and asimdhp features), LibTorch's bfloat16 and float16
// products on the CPU are plain loops, some hundred times slower than float32. Inputs and weights are converted for
// each product, and what autograd saves stays in the given dtype: a run takes the memory of the reduced precision and
// the time of float32, and rounds where the hardware would.
//
// Convolutions of volumes are computed so on all CPUs, where volume_products.h does not serve.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// Whether this CPU multiplies numbers of this type at a speed that is worth it: what oneDNN asks for before it does.
bool has_products(at::ScalarType dtype);
/// Whether products of `x` are to be computed in float32 here; [N, C, D, H, W] is a volume.
bool wants_float_products(const at::Tensor& x);
/// Whether `x` is a volume in two bytes, or the weight [O, C, D, H, W] of one.
bool wants_float_volumes(const at::Tensor& x);

/// They compute what at::linear and at::conv2d do (at::conv3d, where `padding` has three numbers), with float32
/// arithmetic; the result has the dtype and memory order of x.
at::Tensor linear_in_float(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor convolution_in_float(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                                at::IntArrayRef padding);
/// Computes at::scaled_dot_product_attention of [N, heads, L, size] with rows in one piece. It keeps for backward what
/// that keeps, in the dtype of q.
at::Tensor attention_in_float(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace ddpm::nn
