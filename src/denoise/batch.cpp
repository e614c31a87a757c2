#include "denoise/batch.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "base/random.h"
#include "device/scalar_type.h"
#include "diffusion/noise.h"

namespace ddpm::denoise {
namespace {

at::Tensor random_horizontal_flip(const at::Tensor& x0, uint64_t seed, uint64_t step, uint64_t first) {
  const int64_t n = x0.size(0);
  at::Tensor mirrored = at::empty({n, 1, 1, 1}, at::kBool);
  for (int64_t i = 0; i < n; ++i) {
    const base::RandomSequence coin(seed, base::Stream::flip, step, first + static_cast<uint64_t>(i));
    mirrored.mutable_data_ptr<bool>()[i] = coin.below(2) == 1;
  }
  return at::where(mirrored, x0.flip(3), x0);
}

/// The operator on the CPU. uint8 is x / 127.5 - 1, float32 x · scale + offset.
at::Tensor model_images_on_host(const at::Tensor& stored, const at::Tensor& step, int64_t seed, int64_t first,
                                bool flip, double scale, double offset) {
  const at::Tensor x_nhwc = stored.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  if (stored.scalar_type() == at::kByte) {
    x_nhwc.div_(127.5).sub_(1.0);
  } else {
    x_nhwc.mul_(scale).add_(offset);
  }
  at::Tensor x0 = x_nhwc.permute({0, 3, 1, 2});
  if (!flip) return x0;
  return random_horizontal_flip(x0, static_cast<uint64_t>(seed), static_cast<uint64_t>(step.item<int64_t>()),
                                static_cast<uint64_t>(first));
}

}  // namespace

std::vector<int64_t> batch_shape(const data::Field& field, int64_t n) {
  std::vector<int64_t> shape = {n};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return shape;
}

namespace {

data::MicroBatch batch_of(layout::Range range) {
  data::MicroBatch batch;
  batch.positions = range;
  batch.indices.resize(static_cast<std::size_t>(range.size()));
  std::iota(batch.indices.begin(), batch.indices.end(), range.begin);
  return batch;
}

}  // namespace

data::MicroBatch read_range(const data::Dataset& dataset, layout::Range range,
                            const std::function<bool(const data::Field&)>& wanted) {
  data::MicroBatch batch = batch_of(range);
  batch.values = dataset.room_for(batch.indices);
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    const data::Field& field = dataset.fields()[f];
    if (!field.is_read_in_blocks() || !wanted(field)) continue;
    dataset.read_unconfirmed(f, range.begin, range.size(), batch.values[f]);
  }
  dataset.expect_unchanged();
  return batch;
}

data::MicroBatch read_windows(const data::Dataset& dataset, layout::Range range, const data::ImageWindows& windows) {
  data::MicroBatch batch = batch_of(range);
  batch.windows = true;
  batch.values = dataset.room_for(batch.indices, windows);
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    if (!dataset.fields()[f].is_read_in_blocks()) continue;
    for (int64_t i = 0; i < range.size(); ++i) data::read_window(dataset, windows, f, batch, i);
  }
  dataset.expect_unchanged();
  return batch;
}

StoredBatch stored_batch(data::MicroBatch batch, std::span<const data::Field> fields, at::Device device) {
  StoredBatch stored{.step = batch.step,
                     .positions = batch.positions,
                     .step_on_device = diffusion::step_tensor(static_cast<uint64_t>(batch.step), device),
                     .values = {},
                     .windows = batch.windows};
  for (std::size_t f = 0; f < fields.size(); ++f) {
    // The tensor owns the bytes; std::function wants what it holds to be copyable.
    const auto bytes = std::make_shared<std::vector<std::byte>>(std::move(batch.values.at(f)));
    const at::Tensor values = at::from_blob(
        bytes->data(), batch_shape(fields[f], batch.positions.size()), [bytes](void* /*data*/) {},
        device::scalar_type(fields[f].dtype));
    stored.values.push_back(values.to(device));
  }
  return stored;
}

at::Tensor model_images(const at::Tensor& stored, const at::Tensor& step, int64_t seed, int64_t first, bool flip,
                        const data::Normalization& map) {
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::model_images", "").typed<decltype(model_images_on_host)>();
  return kOperator.call(stored, step, seed, first, flip, map.scale, map.offset);
}

}  // namespace ddpm::denoise

TORCH_LIBRARY_FRAGMENT(ddpm, library) {
  library.def(
      "model_images(Tensor stored, Tensor step, int seed, int first, bool flip, float scale, float offset) -> Tensor");
}

TORCH_LIBRARY_IMPL(ddpm, CPU, library) { library.impl("model_images", &ddpm::denoise::model_images_on_host); }
