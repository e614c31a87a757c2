// Attention that rolls with its image: what is added up over keys is added in an order that follows from the keys
// alone.
#pragma once

#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// Keys and values [N, Lk, C], whose channels are `heads` heads one after another, with the keys of each head sorted by
/// the bytes of key and value: the same ones in another order give the same bits. Differentiable, on CPUs.
std::pair<at::Tensor, at::Tensor> in_order_of_keys(const at::Tensor& k, const at::Tensor& v, int64_t heads);

}  // namespace ddpm::nn
