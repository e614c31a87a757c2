#include "nn/dropout.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include "base/random.h"

namespace ddpm::nn {
namespace {

/// The operator on the CPU: the mask in `dtype`, channels-last.
at::Tensor dropout_mask_on_host(const at::Tensor& step, int64_t seed, int64_t stream, int64_t first, double p,
                                int64_t first_row, int64_t total_rows, at::IntArrayRef shape, at::ScalarType dtype) {
  const auto layer = static_cast<uint32_t>(stream) - static_cast<uint32_t>(base::dropout_stream(0));
  const RandomContext random{.seed = static_cast<uint64_t>(seed),
                             .step = static_cast<uint64_t>(step.item<int64_t>()),
                             .first_position = static_cast<uint64_t>(first)};
  return dropout_mask(shape, {.first = first_row, .total = total_rows}, p, layer, random)
      .to(at::TensorOptions(dtype), false, false, at::MemoryFormat::ChannelsLast);
}

}  // namespace

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
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::dropout_mask", "").typed<decltype(dropout_mask_on_host)>();
  const RandomContext& random = context.random;
  const Rows rows = context.partition.rows(x.size(2));
  const at::Tensor step = random.step_on_device.defined()
                              ? random.step_on_device
                              : at::full({}, static_cast<int64_t>(random.step), x.options().dtype(at::kLong));
  return x * kOperator.call(step, static_cast<int64_t>(random.seed), static_cast<int64_t>(base::dropout_stream(layer)),
                            static_cast<int64_t>(random.first_position), p, rows.first, rows.total, x.sizes(),
                            x.scalar_type());
}

}  // namespace ddpm::nn

TORCH_LIBRARY_FRAGMENT(ddpm, library) {
  library.def(
      "dropout_mask(Tensor step, int seed, int stream, int first, float p, int first_row, int total_rows, int[] shape, "
      "ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(ddpm, CPU, library) { library.impl("dropout_mask", &ddpm::nn::dropout_mask_on_host); }
