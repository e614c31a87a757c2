#include "nn/dropout.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "base/random.h"

namespace ddpm::nn {

at::Tensor dropout_mask(at::IntArrayRef shape, const Rows& rows, double p, uint32_t layer,
                        const RandomContext& random) {
  at::Tensor mask = at::empty(shape, at::kFloat);
  const int64_t channels = shape[1];
  const int64_t width = shape[3];
  const int64_t plane = shape[2] * width;
  float* const data = mask.mutable_data_ptr<float>();
  const auto threshold = static_cast<float>(p);
  const auto kept = static_cast<float>(1.0 / (1.0 - p));
  at::parallel_for(0, shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * channels; i < end * channels; ++i) {
      const int64_t image = i / channels;
      const int64_t first = (i % channels * rows.total + rows.first) * width;
      const base::RandomSequence numbers(random.seed, base::dropout_stream(layer), random.step,
                                         random.first_position + static_cast<uint64_t>(image));
      const std::span<float> out(data + i * plane, static_cast<std::size_t>(plane));
      numbers.fill_uniform(out, 0.0F, 1.0F, static_cast<uint64_t>(first));
      std::transform(out.begin(), out.end(), out.begin(), [=](float u) { return u < threshold ? 0.0F : kept; });
    }
  });
  return mask;
}

at::Tensor dropout(const at::Tensor& x, double p, uint32_t layer, const Context& context) {
  if (p == 0.0 || !context.random.training) return x;
  if (x.is_meta()) return x * at::empty_like(x);
  const at::Tensor mask = dropout_mask(x.sizes(), context.partition.rows(x.size(2)), p, layer, context.random);
  return x * mask.to(x.options(), false, false, x.suggest_memory_format());
}

}  // namespace ddpm::nn
