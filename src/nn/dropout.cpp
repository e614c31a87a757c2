#include "nn/dropout.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "base/random.h"

namespace ddpm::nn {

at::Tensor dropout_mask(at::IntArrayRef shape, double p, uint32_t layer, const RandomContext& random) {
  at::Tensor mask = at::empty(shape, at::kFloat);
  const int64_t elements = mask.numel() / shape[0];
  float* const first = mask.mutable_data_ptr<float>();
  const auto threshold = static_cast<float>(p);
  const auto kept = static_cast<float>(1.0 / (1.0 - p));
  at::parallel_for(0, shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t image = begin; image < end; ++image) {
      const base::RandomSequence numbers(random.seed, base::dropout_stream(layer), random.step,
                                         random.first_position + static_cast<uint64_t>(image));
      const std::span<float> out(first + image * elements, static_cast<std::size_t>(elements));
      numbers.fill_uniform(out, 0.0F, 1.0F);
      std::transform(out.begin(), out.end(), out.begin(), [=](float u) { return u < threshold ? 0.0F : kept; });
    }
  });
  return mask;
}

at::Tensor dropout(const at::Tensor& x, double p, uint32_t layer, const RandomContext& random) {
  if (p == 0.0 || !random.training) return x;
  if (x.is_meta()) return at::empty_like(x);
  const at::Tensor mask = dropout_mask(x.sizes(), p, layer, random);
  return x * mask.to(x.options(), false, false, x.suggest_memory_format());
}

}  // namespace ddpm::nn
