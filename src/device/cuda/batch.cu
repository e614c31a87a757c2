// The operators of denoise/batch.h, denoise/denoising_loss.h and diffusion/schedule.h on CUDA tensors.
#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/library.h>

#include "base/random.h"
#include "device/cuda/batch_kernels.h"

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

uint32_t blocks_for(const at::Tensor& images, uint32_t elements) {
  return static_cast<uint32_t>(images.size(0)) * chunks_of(elements);
}

template <typename Stored>
void launch_model_images(const at::Tensor& stored, const Draw& coins, StoredImages images, const at::Tensor& out) {
  const auto* const from = stored.const_data_ptr<Stored>();
  auto* const to = out.mutable_data_ptr<float>();
  images.whole = fours_are_whole(from, images.elements) && fours_are_whole(to, images.elements);
  model_images_kernel<Stored>
      <<<blocks_for(stored, images.elements), kBatchThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(coins, images,
                                                                                                     from, to);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
    if (stored.scalar_type() == at::kByte) {
      launch_model_images<uint8_t>(stored, coins, images, out);
    } else {
      launch_model_images<float>(stored, coins, images, out);
    }
  }
  return out.permute({0, 3, 1, 2});
}

template <typename Out>
void launch_blend(const at::Tensor& x, const at::Tensor& y, const at::Tensor& t, const at::Tensor& of_x,
                  const at::Tensor& of_y, const at::Tensor& out) {
  const uint32_t elements = elements_of(x);
  const auto* const from_x = x.const_data_ptr<float>();
  const auto* const from_y = y.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<Out>();
  const bool whole =
      fours_are_whole(from_x, elements) && fours_are_whole(from_y, elements) && fours_are_whole(to, elements);
  blend_kernel<Out><<<blocks_for(x, elements), kBatchThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      from_x, from_y, t.const_data_ptr<int64_t>(), of_x.const_data_ptr<float>(), of_y.const_data_ptr<float>(), elements,
      whole, to);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
  switch (dtype) {
    case at::kFloat:
      launch_blend<float>(x, y, t, of_x, of_y, out);
      break;
    case at::kBFloat16:
      launch_blend<c10::BFloat16>(x, y, t, of_x, of_y, out);
      break;
    case at::kHalf:
      launch_blend<c10::Half>(x, y, t, of_x, of_y, out);
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
  loss_row_kernel<<<1, kLossThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      losses.const_data_ptr<float>(), place.const_data_ptr<int64_t>(), static_cast<uint32_t>(losses.numel()), places,
      row.mutable_data_ptr<double>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return row;
}

}  // namespace
}  // namespace ddpm::device::cuda

TORCH_LIBRARY_IMPL(ddpm, CUDA, library) {
  library.impl("model_images", &ddpm::device::cuda::model_images);
  library.impl("blend_images", &ddpm::device::cuda::blend_images);
  library.impl("loss_row", &ddpm::device::cuda::loss_row);
}
