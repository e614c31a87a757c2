// Attention on the CPU for small heads, as one node of autograd's graph: see nn/ops/attention.h for the operation.
//
// Scores are never stored: forward saves q, k, v, the result and the log-sums of the scores, and backward computes the
// scores again. A head of an image is one thread's work, so the bits do not depend on the number of threads.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ddpm::nn::cpu {

/// Whether attention() takes these, but for their device: contiguous float32 or bfloat16, and heads small enough that
/// products of matrices do not pay.
bool takes_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads);

/// float32 arithmetic; the result has the dtype of q.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads);

/// Whether tile_attention() takes these, and the processor has instructions for it: what attention() takes in bfloat16.
bool takes_tile_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads);

/// Without gradients; see TileAttention in kernels.h.
at::Tensor tile_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads);

}  // namespace ddpm::nn::cpu
