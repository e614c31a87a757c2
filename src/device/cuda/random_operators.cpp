// The operators of diffusion/noise.h and nn/dropout.h on CUDA tensors.
#include <array>
#include <limits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/library.h>

#include "device/cuda/random_launch.h"

namespace ddpm::device::cuda {
namespace {

Draw draw_of(const at::Tensor& step, int64_t seed, int64_t stream, int64_t first, int64_t count) {
  constexpr int64_t kPositions = int64_t{1} << 32;
  TORCH_CHECK(step.scalar_type() == at::kLong && step.numel() == 1, "the step is a tensor of ", step.numel(), " ",
              step.scalar_type(), ", wanted one int64");
  TORCH_CHECK(first >= 0 && count >= 0 && first + count <= kPositions, count, " positions from ", first,
              ", wanted some of 2^32");
  return {.step = step.const_data_ptr<int64_t>(),
          .seed = static_cast<uint64_t>(seed),
          .stream = static_cast<uint32_t>(stream),
          .first = static_cast<uint32_t>(first)};
}

at::Tensor draw_timesteps(const at::Tensor& step, int64_t seed, int64_t stream, int64_t first, int64_t count,
                          int64_t num_train_timesteps) {
  const c10::cuda::CUDAGuard guard(step.device());
  const Draw draw = draw_of(step, seed, stream, first, count);
  at::Tensor t = at::empty({count}, step.options());
  if (count == 0) return t;
  const auto images = static_cast<uint32_t>(count);
  start_timesteps(draw, images, static_cast<uint32_t>(num_train_timesteps), t.mutable_data_ptr<int64_t>(),
                  c10::cuda::getCurrentCUDAStream());
  return t;
}

/// The plan for `shape`, [N, C, rows, W], of images of `total_rows` from `first_row` on.
TilePlan plan_of(at::IntArrayRef shape, int64_t first_row, int64_t total_rows) {
  constexpr int64_t kElements = int64_t{4} << 32;
  TORCH_CHECK(shape.size() == 4, shape.size(), " axes, wanted [N, C, H, W]");
  const int64_t plane = total_rows * shape[3];
  TORCH_CHECK(plane < std::numeric_limits<int32_t>::max() && shape[1] * plane <= kElements, "images of ", shape,
              " and ", total_rows, " rows: a sequence has 2^34 numbers");
  TORCH_CHECK(first_row >= 0 && first_row * shape[3] <= std::numeric_limits<uint32_t>::max(), "rows from ", first_row,
              " on of ", shape[3], " pixels each: a plane has less than 2^32");
  const TilePlan plan = plan_tiles(static_cast<uint32_t>(shape[1]), static_cast<uint32_t>(shape[2] * shape[3]),
                                   static_cast<uint32_t>(plane), static_cast<uint32_t>(first_row * shape[3]));
  TORCH_CHECK(shape[0] * plan.tiles() <= std::numeric_limits<int32_t>::max(), "images of ", shape,
              " are too many for one launch");
  return plan;
}

at::Tensor channels_last(at::IntArrayRef shape, const at::Tensor& step, at::ScalarType dtype) {
  return at::empty(shape, step.options().dtype(dtype).memory_format(at::MemoryFormat::ChannelsLast));
}

at::Tensor draw_normals(const at::Tensor& step, int64_t seed, int64_t stream, int64_t offset_stream, double amount,
                        int64_t first, at::IntArrayRef shape, at::IntArrayRef tile) {
  const c10::cuda::CUDAGuard guard(step.device());
  const Draw draw = draw_of(step, seed, stream, first, shape[0]);
  const OffsetNoise offset{.stream = static_cast<uint32_t>(offset_stream), .amount = static_cast<float>(amount)};
  const auto band = [&](int64_t first_row, int64_t rows) {
    const std::array<int64_t, 4> sizes = {shape[0], shape[1], rows, shape[3]};
    at::Tensor normals = channels_last(sizes, step, at::kFloat);
    if (normals.numel() == 0) return normals;
    start_normals(draw, offset, plan_of(sizes, first_row, shape[2]), static_cast<uint32_t>(shape[0]),
                  normals.mutable_data_ptr<float>(), c10::cuda::getCurrentCUDAStream());
    return normals;
  };
  if (tile.empty()) return band(0, shape[2]);
  // Bands of the image's whole width, one in each layer of the tile.
  const int64_t rows = shape[2] / tile[0];
  std::vector<at::Tensor> bands;
  for (int64_t layer = tile[1]; layer < tile[2]; ++layer) {
    bands.push_back(band(layer * rows + tile[3], tile[4] - tile[3]).narrow(3, tile[5], tile[6] - tile[5]));
  }
  return at::cat(bands, 2).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor dropout_mask(const at::Tensor& step, int64_t seed, int64_t stream, int64_t first, double p,
                        int64_t first_row, int64_t total_rows, at::IntArrayRef shape, at::ScalarType dtype) {
  const c10::cuda::CUDAGuard guard(step.device());
  const at::Tensor mask = channels_last(shape, step, dtype);
  if (mask.numel() == 0) return mask;
  const Draw draw = draw_of(step, seed, stream, first, shape[0]);
  const TilePlan plan = plan_of(shape, first_row, total_rows);
  const auto start = [&](auto* out) {
    start_dropout_mask(draw, p, plan, static_cast<uint32_t>(shape[0]), out, c10::cuda::getCurrentCUDAStream());
  };
  switch (dtype) {
    case at::kFloat:
      start(mask.mutable_data_ptr<float>());
      break;
    case at::kBFloat16:
      start(mask.mutable_data_ptr<c10::BFloat16>());
      break;
    case at::kHalf:
      start(mask.mutable_data_ptr<c10::Half>());
      break;
    default:
      TORCH_CHECK(false, "activations in ", dtype, ", wanted float32, bfloat16 or float16");
  }
  return mask;
}

}  // namespace
}  // namespace ddpm::device::cuda

TORCH_LIBRARY_IMPL(ddpm, CUDA, library) {
  library.impl("draw_timesteps", &ddpm::device::cuda::draw_timesteps);
  library.impl("draw_normals", &ddpm::device::cuda::draw_normals);
  library.impl("dropout_mask", &ddpm::device::cuda::dropout_mask);
}
