// The random inputs of training and sampling: each a pure function of the seed and of where it is used, whatever the
// number of ranks, threads and micro-batches (base/random.h). They are drawn on the device that computes, by the
// operators ddpm::draw_timesteps and ddpm::draw_normals, with the same bits on CPU and GPU; nothing waits for the
// device.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "base/random.h"
#include "layout/range.h"

namespace ddpm::diffusion {

/// A tile of an image. Volumes have `layers`, whose rows follow each other; flat images are one layer.
struct ImageTile {
  int64_t layers = 1;  ///< layers of the whole image
  layout::Range layer{0, 1};
  layout::Range row;     ///< rows within each layer
  layout::Range column;  ///< columns; like the others, counted in the whole image
  [[nodiscard]] int64_t rows() const { return layer.size() * row.size(); }
  friend bool operator==(const ImageTile&, const ImageTile&) = default;
};

/// Size of one image.
struct ImageShape {
  int64_t channels = 3;
  int64_t height = 0;
  int64_t width = 0;
  std::optional<ImageTile> tile = std::nullopt;  ///< the part that numbers are drawn for; unset: the whole image
  [[nodiscard]] int64_t elements() const { return channels * height * width; }
  /// Rows and columns of what numbers are drawn for.
  [[nodiscard]] int64_t drawn_height() const { return tile ? tile->rows() : height; }
  [[nodiscard]] int64_t drawn_width() const { return tile ? tile->column.size() : width; }
};

/// Standard normals of images [first, first + count): float32 [count, C, H, W], contiguous on the CPU. Image n is drawn
/// from (seed, stream, step, position n), element = index in its CHW order. Of a tile, H and W are its own. Other
/// devices draw the same bits themselves, channels-last, and nothing waits for them.
at::Tensor image_normals(uint64_t seed, base::Stream stream, uint64_t step, uint64_t first, int64_t count,
                         const ImageShape& shape, at::Device device = at::kCPU);

/// A step for Draws: int64, one number. GPUs read it from memory, so that captured work can be replayed for the
/// next step.
at::Tensor step_tensor(uint64_t step, at::Device device);

/// The positions [first, first + count) of the global batch of `step`, and the numbers drawn for them, where `step` is.
struct Draws {
  uint64_t seed;
  const at::Tensor& step;
  int64_t first;
  int64_t count;

  /// int64 [count], uniform in [0, below), below < 2^32.
  [[nodiscard]] at::Tensor integers(base::Stream stream, int64_t below) const;
  /// float64 [count], uniform in (0, 1).
  [[nodiscard]] at::Tensor uniforms(base::Stream stream) const;
  /// Standard normals, float64 [count].
  [[nodiscard]] at::Tensor normals(base::Stream stream) const;
  /// Standard normals, float32 [count, C, H, W], channels-last. Each channel of an image is shifted by `offset` times a
  /// normal of its own, of another stream.
  [[nodiscard]] at::Tensor images(base::Stream stream, const ImageShape& shape, base::Stream offset_stream,
                                  double offset) const;
};

/// What sampling starts from: unit normal noise of images [first_image, first_image + count) of a sample job.
at::Tensor initial_noise(uint64_t seed, uint64_t first_image, int64_t count, const ImageShape& shape,
                         at::Device device = at::kCPU);

}  // namespace ddpm::diffusion
