#include "train/batch.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "base/random.h"

namespace ddpm::train {

at::Tensor normalize(const data::MicroBatch& batch, const data::ImageFormat& format, const data::Normalization& map,
                     at::Device device) {
  const bool is_u8 = format.dtype == base::DType::u8;
  // from_blob takes a void*; the bytes are only read.
  auto* bytes = const_cast<std::byte*>(batch.images.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  const at::Tensor stored = at::from_blob(bytes, {batch.positions.size(), format.height, format.width, format.channels},
                                          is_u8 ? at::kByte : at::kFloat);
  const at::Tensor x_nhwc = stored.to(device).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  if (is_u8) {
    x_nhwc.div_(127.5).sub_(1.0);
  } else {
    x_nhwc.mul_(map.scale).add_(map.offset);
  }
  return x_nhwc.permute({0, 3, 1, 2});
}

at::Tensor random_horizontal_flip(const at::Tensor& x0, const data::MicroBatch& batch, uint64_t seed) {
  const int64_t n = batch.positions.size();
  at::Tensor mirrored = at::empty({n, 1, 1, 1}, at::kBool);
  for (int64_t i = 0; i < n; ++i) {
    const base::RandomSequence coin(seed, base::Stream::flip, static_cast<uint64_t>(batch.step),
                                    static_cast<uint64_t>(batch.positions.begin + i));
    mirrored.mutable_data_ptr<bool>()[i] = coin.below(2) == 1;
  }
  return at::where(mirrored.to(x0.device()), x0.flip(3), x0);
}

at::Tensor label_tensor(const data::MicroBatch& batch, at::Device device) {
  if (batch.labels.empty()) return {};
  return at::tensor(batch.labels, at::kLong).to(device);
}

}  // namespace ddpm::train
