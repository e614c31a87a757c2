#include "nn/dropout.h"

#include <algorithm>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
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

/// The mask of the tile x, of bands of rows over the image's whole width that `draw` makes: one band, of volumes one in
/// each layer. Channels follow each other as rows do: where others come before those that are here, so do their rows.
template <typename Draw>
at::Tensor mask_of_tile(const at::Tensor& x, const Partition& partition, const Draw& draw) {
  const int64_t layers = partition.depth(x);
  const int64_t height = layers == 0 ? x.size(2) : x.size(2) / layers;
  const TilePlace columns = partition.place(ImageAxis::width, x.size(3));
  const TilePlace rows = partition.place(ImageAxis::height, height);
  const auto band = [&](const TilePlace& place, int64_t count) {
    const int64_t rows_before = partition.channel_part() * x.size(1) * place.total;
    const at::Tensor wide =
        draw({.first = rows_before + place.first, .total = place.total}, {x.size(0), x.size(1), count, columns.total});
    return columns.total == x.size(3) ? wide : wide.narrow(3, columns.first, x.size(3));
  };
  if (layers == 0) return band(rows, height);
  const TilePlace depth = partition.place(ImageAxis::depth, layers);
  const int64_t all_rows = depth.total * rows.total;
  if (rows.total == height) return band({depth.first * height, all_rows}, layers * height);
  std::vector<at::Tensor> bands;
  for (int64_t layer = 0; layer < layers; ++layer) {
    bands.push_back(band({(depth.first + layer) * rows.total + rows.first, all_rows}, height));
  }
  return at::cat(bands, 2);
}

}  // namespace

at::Tensor dropout_mask(at::IntArrayRef shape, const TilePlace& rows, double p, uint32_t layer,
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

at::Tensor dropout(const at::Tensor& x, double p, uint32_t layer, const ForwardContext& context) {
  if (p == 0.0 || !context.random.training) return x;
  if (x.is_meta()) return x * at::empty_like(x);
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::dropout_mask", "").typed<decltype(dropout_mask_on_host)>();
  const RandomContext& random = context.random;
  const at::Tensor step = random.step_on_device.defined()
                              ? random.step_on_device
                              : at::full({}, static_cast<int64_t>(random.step), x.options().dtype(at::kLong));
  const auto draw = [&](const TilePlace& rows, at::IntArrayRef shape) {
    return kOperator.call(step, static_cast<int64_t>(random.seed), static_cast<int64_t>(base::dropout_stream(layer)),
                          static_cast<int64_t>(random.first_position), p, rows.first, rows.total, shape,
                          x.scalar_type());
  };
  return x * mask_of_tile(x, context.partition, draw);
}

}  // namespace ddpm::nn

TORCH_LIBRARY_FRAGMENT(ddpm, library) {
  library.def(
      "dropout_mask(Tensor step, int seed, int stream, int first, float p, int first_row, int total_rows, int[] shape, "
      "ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(ddpm, CPU, library) { library.impl("dropout_mask", &ddpm::nn::dropout_mask_on_host); }
