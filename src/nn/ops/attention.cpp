#include "nn/ops/attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "nn/ops/cpu/attention.h"
#include "nn/ops/float_products.h"
#include "nn/ops/meta.h"

namespace ddpm::nn {

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  if (q.is_meta()) {
    const at::Tensor log_sums = at::empty({q.size(0), heads, q.size(1)}, q.options().dtype(at::kFloat));
    return run_on_meta({.inputs = {q, k, v},
                        .result_sizes = q.sizes().vec(),
                        .result_options = q.options(),
                        .saved = {q, k, v, log_sums},
                        .saves_result = true});
  }
  if (q.is_cpu() && cpu::takes_attention(q, k, v, heads)) return cpu::attention(q, k, v, heads);
  const auto split = [heads](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
  };
  const at::Tensor y = wants_float_products(q) ? attention_in_float(split(q), split(k), split(v))
                                               : at::scaled_dot_product_attention(split(q), split(k), split(v));
  return y.transpose(1, 2).reshape(q.sizes());
}

at::Tensor attention_inference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  if (q.is_cpu() && cpu::takes_tile_attention(q, k, v, heads)) return cpu::tile_attention(q, k, v, heads);
  return attention(q, k, v, heads);
}

}  // namespace ddpm::nn
