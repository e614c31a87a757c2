#include "diffusion/noise.h"

#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include "base/check.h"

namespace ddpm::diffusion {
namespace {

using base::RandomSequence;
using base::Stream;

/// Uniform numbers in (0, 1) are (k + 0.5) / 2^23, which float32 holds exactly.
constexpr int64_t kFractions = int64_t{1} << 23;

uint64_t value_of(const at::Tensor& step) { return static_cast<uint64_t>(step.const_data_ptr<int64_t>()[0]); }

// The operators, on the CPU.

at::Tensor draw_timesteps(const at::Tensor& step, int64_t seed, int64_t stream, int64_t first, int64_t count,
                          int64_t num_train_timesteps) {
  at::Tensor t = at::empty({count}, at::kLong);
  int64_t* values = t.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const RandomSequence sequence(static_cast<uint64_t>(seed), static_cast<Stream>(stream), value_of(step),
                                  static_cast<uint64_t>(first + i));
    values[i] = sequence.below(static_cast<uint32_t>(num_train_timesteps));
  }
  return t;
}

/// A tile as the operator is told of it: see its schema.
std::vector<int64_t> numbers_of(const std::optional<ImageTile>& tile) {
  if (!tile) return {};
  return {tile->layers,  tile->layer.begin,  tile->layer.end, tile->row.begin,
          tile->row.end, tile->column.begin, tile->column.end};
}

std::optional<ImageTile> tile_of(at::IntArrayRef numbers) {
  if (numbers.empty()) return std::nullopt;
  return ImageTile{.layers = numbers[0],
                   .layer = {numbers[1], numbers[2]},
                   .row = {numbers[3], numbers[4]},
                   .column = {numbers[5], numbers[6]}};
}

at::Tensor draw_normals(const at::Tensor& step, int64_t seed, int64_t stream, int64_t offset_stream, double amount,
                        int64_t first, at::IntArrayRef shape, at::IntArrayRef tile) {
  const auto normals = [&](int64_t chosen, const ImageShape& image) {
    return image_normals(static_cast<uint64_t>(seed), static_cast<Stream>(chosen), value_of(step),
                         static_cast<uint64_t>(first), shape[0], image);
  };
  const at::Tensor noise =
      normals(stream, {.channels = shape[1], .height = shape[2], .width = shape[3], .tile = tile_of(tile)});
  if (amount != 0.0) noise.add_(normals(offset_stream, {.channels = shape[1], .height = 1, .width = 1}), amount);
  return noise.contiguous(at::MemoryFormat::ChannelsLast);
}

/// The numbers of a tile, row by row.
void fill_tile(const RandomSequence& sequence, const ImageShape& shape, const ImageTile& tile, float* out) {
  const int64_t rows = shape.height / tile.layers;  // rows in a layer of the whole image
  const auto width = static_cast<std::size_t>(tile.column.size());
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    for (int64_t layer = tile.layer.begin; layer < tile.layer.end; ++layer) {
      for (int64_t row = tile.row.begin; row < tile.row.end; ++row) {
        const int64_t line = (channel * tile.layers + layer) * rows + row;
        sequence.fill_normal({out, width}, static_cast<uint64_t>(line * shape.width + tile.column.begin));
        out += width;
      }
    }
  }
}

}  // namespace

at::Tensor image_normals(uint64_t seed, Stream stream, uint64_t step, uint64_t first, int64_t count,
                         const ImageShape& shape, at::Device device) {
  if (!device.is_cpu()) {
    const at::Tensor own_step = step_tensor(step, device);
    return Draws{seed, own_step, static_cast<int64_t>(first), count}.images(stream, shape, stream, 0.0);
  }
  at::Tensor images = at::empty({count, shape.channels, shape.drawn_height(), shape.drawn_width()}, at::kFloat);
  float* values = images.mutable_data_ptr<float>();
  const int64_t size = shape.channels * shape.drawn_height() * shape.drawn_width();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RandomSequence sequence(seed, stream, step, first + static_cast<uint64_t>(i));
      if (shape.tile) {
        fill_tile(sequence, shape, *shape.tile, values + i * size);
      } else {
        sequence.fill_normal({values + i * size, static_cast<std::size_t>(size)});
      }
    }
  });
  return images;
}

at::Tensor step_tensor(uint64_t step, at::Device device) {
  return at::full({}, static_cast<int64_t>(step), at::TensorOptions(device).dtype(at::kLong));
}

at::Tensor Draws::integers(Stream stream, int64_t below) const {
  DDPM_CHECK(first >= 0 && count >= 0, "{} positions from {}", count, first);
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::draw_timesteps", "").typed<decltype(draw_timesteps)>();
  return kOperator.call(step, static_cast<int64_t>(seed), static_cast<int64_t>(stream), first, count, below);
}

at::Tensor Draws::uniforms(Stream stream) const {
  return (integers(stream, kFractions).to(at::kDouble) + 0.5) / static_cast<double>(kFractions);
}

at::Tensor Draws::normals(Stream stream) const {
  return images(stream, {.channels = 1, .height = 1, .width = 1}, stream, 0.0).view({count}).to(at::kDouble);
}

at::Tensor Draws::images(Stream stream, const ImageShape& shape, Stream offset_stream, double offset) const {
  DDPM_CHECK(first >= 0 && count >= 0, "{} positions from {}", count, first);
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::draw_normals", "").typed<decltype(draw_normals)>();
  return kOperator.call(step, static_cast<int64_t>(seed), static_cast<int64_t>(stream),
                        static_cast<int64_t>(offset_stream), offset, first,
                        {count, shape.channels, shape.height, shape.width}, numbers_of(shape.tile));
}

at::Tensor initial_noise(uint64_t seed, uint64_t first_image, int64_t count, const ImageShape& shape,
                         at::Device device) {
  return image_normals(seed, Stream::sample_initial, 0, first_image, count, shape, device);
}

}  // namespace ddpm::diffusion

// `shape` is that of whole images. `tile` is empty, or the layers of these, and the first and the one behind the last
// of the tile's layers, rows and columns.
TORCH_LIBRARY_FRAGMENT(ddpm, library) {
  library.def(
      "draw_timesteps(Tensor step, int seed, int stream, int first, int count, int num_train_timesteps) -> Tensor");
  library.def(
      "draw_normals(Tensor step, int seed, int stream, "
      "int offset_stream, float amount, int first, int[] shape, int[] tile) -> Tensor");
}

TORCH_LIBRARY_IMPL(ddpm, CPU, library) {
  library.impl("draw_timesteps", &ddpm::diffusion::draw_timesteps);
  library.impl("draw_normals", &ddpm::diffusion::draw_normals);
}
