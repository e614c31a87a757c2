// Multi-head attention over the pixels of an image: softmax(q k^T / sqrt(d)) v for each head of size d.
//
// Vaswani et al.: "Attention is all you need", 2017, equation 1.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// q [N, Lq, C], k and v [N, Lk, C], whose channels are `heads` heads one after another; result [N, Lq, C], contiguous.
/// The softmax is float32 whatever the dtype.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads);

/// attention() without gradients, for what is drawn. In bfloat16 it is faster on processors that multiply tiles of it
/// (AMX), with other bits: probabilities are rounded to bfloat16 too, which makes the error of random data 2.2e-3 of
/// the result's root mean square, where rounding the result alone gives 1.7e-3.
at::Tensor attention_inference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads);

}  // namespace ddpm::nn
