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

}  // namespace ddpm::nn
