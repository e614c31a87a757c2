// The operators of denoise/batch.h, denoise/denoising_loss.h and diffusion/schedule.h on CUDA tensors.
#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/library.h>

#include "base/random.h"
#include "device/cuda/batch_launch.h"

namespace ddpm::device::cuda {
namespace {

/// Elements of one of `images`, [N, ...].
uint32_t elements_of(const at::Tensor& images) {
  const int64_t elements = images.numel() / images.size(0);
  const int64_t blocks = images.size(0) * ((elements + kChunk - 1) / kChunk);
  TORCH_CHECK(elements <= std::numeric_limits<int32_t>::max() && blocks <= std::numeric_limits<int32_t>::max(),
              "images of ", images.sizes(), " are too many for one launch");
  return static_cast<uint32_t>(elements);
}

at::Tensor model_images(const at::Tensor& stored, const at::Tensor& step, int64_t seed, int64_t first, bool flip,
                        double scale, double offset) {
  const c10::cuda::CUDAGuard guard(stored.device());
  TORCH_CHECK(stored.dim() == 4 && stored.is_contiguous(), "stored images have ", stored.dim(),
              " axes, wanted [N, H, W, C], contiguous");
  const at::Tensor out = at::empty(stored.sizes(), stored.options().dtype(at::kFloat));
  if (stored.numel() > 0) {
    const Draw coins{.step = step.const_data_ptr<int64_t>(),
                     .seed = static_cast<uint64_t>(seed),
                     .stream = static_cast<uint32_t>(base::Stream::flip),
                     .first = static_cast<uint32_t>(first)};
    const StoredImages images{.width = static_cast<uint32_t>(stored.size(2)),
                              .channels = static_cast<uint32_t>(stored.size(3)),
                              .elements = elements_of(stored),
                              .scale = static_cast<float>(scale),
                              .offset = static_cast<float>(offset),
                              .flip = flip,
                              .whole = false};
    const auto start = [&](const auto* from) {
      start_model_images(coins, images, static_cast<uint32_t>(stored.size(0)), from, out.mutable_data_ptr<float>(),
                         c10::cuda::getCurrentCUDAStream());
    };
    if (stored.scalar_type() == at::kByte) {
      start(stored.const_data_ptr<uint8_t>());
    } else {
      start(stored.const_data_ptr<float>());
    }
  }
  return out.permute({0, 3, 1, 2});
}

at::Tensor blend_images(const at::Tensor& x_any, const at::Tensor& y_any, const at::Tensor& t, const at::Tensor& of_x,
                        const at::Tensor& of_y, at::ScalarType dtype) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  TORCH_CHECK(x_any.dim() == 4 && x_any.sizes() == y_any.sizes() && t.dim() == 1 && t.size(0) == x_any.size(0),
              "images of ", x_any.sizes(), " and ", y_any.sizes(), ", timesteps of ", t.sizes());
  const at::Tensor x = x_any.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor y = y_any.contiguous(at::MemoryFormat::ChannelsLast);
  const at::TensorOptions options = x.options().dtype(dtype).memory_format(at::MemoryFormat::ChannelsLast);
  at::Tensor out = at::empty(x.sizes(), options);
  if (x.numel() == 0) return out;
  const Blend blend{.x = x.const_data_ptr<float>(),
                    .y = y.const_data_ptr<float>(),
                    .t = t.const_data_ptr<int64_t>(),
                    .of_x = of_x.const_data_ptr<float>(),
                    .of_y = of_y.const_data_ptr<float>()};
  const auto start = [&](auto* to) {
    start_blend(blend, static_cast<uint32_t>(x.size(0)), elements_of(x), to, c10::cuda::getCurrentCUDAStream());
  };
  switch (dtype) {
    case at::kFloat:
      start(out.mutable_data_ptr<float>());
      break;
    case at::kBFloat16:
      start(out.mutable_data_ptr<c10::BFloat16>());
      break;
    case at::kHalf:
      start(out.mutable_data_ptr<c10::Half>());
      break;
    default:
      TORCH_CHECK(false, "images in ", dtype, ", wanted float32, bfloat16 or float16");
  }
  return out;
}

at::Tensor loss_row(const at::Tensor& losses, const at::Tensor& place, int64_t places) {
  const c10::cuda::CUDAGuard guard(losses.device());
  TORCH_CHECK(losses.is_contiguous() && losses.sizes() == place.sizes(), "losses of ", losses.sizes(), ", places of ",
              place.sizes());
  at::Tensor row = at::empty({kLossNumbers}, losses.options().dtype(at::kDouble));
  start_loss_row(losses.const_data_ptr<float>(), place.const_data_ptr<int64_t>(), static_cast<uint32_t>(losses.numel()),
                 places, row.mutable_data_ptr<double>(), c10::cuda::getCurrentCUDAStream());
  return row;
}

}  // namespace
}  // namespace ddpm::device::cuda

TORCH_LIBRARY_IMPL(ddpm, CUDA, library) {
  library.impl("model_images", &ddpm::device::cuda::model_images);
  library.impl("blend_images", &ddpm::device::cuda::blend_images);
  library.impl("loss_row", &ddpm::device::cuda::loss_row);
}
