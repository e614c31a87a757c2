// Many small images as one picture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddpm::observe {

/// 8-bit pixels, [height, width, channels], channels fastest.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels_hwc;
};

/// [-1, 1] to [0, 255]: round((x + 1) * 127.5), clamped; the inverse of x / 127.5 - 1. NaN becomes 0.
uint8_t to_byte(float x);
/// Converts every element with to_byte() and keeps their order.
std::vector<uint8_t> to_bytes(std::span<const float> x);

/// [n, channels, height, width] to [n, height, width, channels].
std::vector<uint8_t> to_channels_last(std::span<const uint8_t> nchw, int64_t channels, int64_t height, int64_t width);

struct GridOptions {
  int64_t columns = 0;       ///< 0: the smallest number with columns * columns >= n
  int64_t padding = 2;       ///< pixels between images and around them
  uint8_t background = 255;  ///< value of the pixels in padding and empty cells
};

/// Lays n = images.size() / (height * width * channels) images, [n, height, width, channels], out in rows, left to
/// right and top to bottom. The number of elements must be a positive multiple of one image's.
Image image_grid(std::span<const uint8_t> images_nhwc, int64_t height, int64_t width, int64_t channels,
                 const GridOptions& options = {});
/// Lays out float images in [-1, 1], [n, channels, height, width] as LibTorch has them.
Image image_grid_nchw(std::span<const float> images_nchw, int64_t channels, int64_t height, int64_t width,
                      const GridOptions& options = {});

}  // namespace ddpm::observe
