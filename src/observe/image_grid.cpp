#include "observe/image_grid.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ddpm::observe {

namespace {

int64_t near_square_columns(int64_t n) {
  int64_t columns = 1;
  while (columns * columns < n) ++columns;
  return columns;
}

}  // namespace

uint8_t to_byte(float x) {
  // Written so that NaN takes the first branch: converting it to an integer would be undefined.
  if (!(x > -1.0F)) return 0;
  return static_cast<uint8_t>(std::lrint((std::min(x, 1.0F) + 1.0F) * 127.5F));
}

std::vector<uint8_t> to_bytes(std::span<const float> x) {
  std::vector<uint8_t> bytes(x.size());
  std::transform(x.begin(), x.end(), bytes.begin(), to_byte);
  return bytes;
}

std::vector<uint8_t> to_channels_last(std::span<const uint8_t> nchw, int64_t channels, int64_t height, int64_t width) {
  const int64_t pixels = height * width;
  const int64_t image = channels * pixels;
  const auto size = static_cast<int64_t>(nchw.size());
  DDPM_CHECK(image > 0 && size % image == 0, "{} elements, {} per image", size, image);
  std::vector<uint8_t> nhwc(nchw.size());
  auto out = nhwc.begin();
  for (int64_t first = 0; first < size; first += image) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        *out++ = nchw[static_cast<std::size_t>(first + channel * pixels + pixel)];
      }
    }
  }
  return nhwc;
}

Image image_grid(std::span<const uint8_t> images_nhwc, int64_t height, int64_t width, int64_t channels,
                 const GridOptions& options) {
  const int64_t row_bytes = width * channels;
  const int64_t image_bytes = height * row_bytes;
  const auto size = static_cast<int64_t>(images_nhwc.size());
  DDPM_CHECK(size > 0 && image_bytes > 0 && size % image_bytes == 0, "{} elements, {} per image", size, image_bytes);
  const int64_t n = size / image_bytes;
  const int64_t columns = options.columns > 0 ? options.columns : near_square_columns(n);
  const int64_t rows = (n + columns - 1) / columns;
  const int64_t pad = options.padding;

  Image grid{rows * (height + pad) + pad, columns * (width + pad) + pad, channels, {}};
  grid.pixels_hwc.assign(static_cast<std::size_t>(grid.height * grid.width * channels), options.background);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t top = pad + (i / columns) * (height + pad);
    const int64_t left = pad + (i % columns) * (width + pad);
    for (int64_t y = 0; y < height; ++y) {
      const auto row = images_nhwc.subspan(static_cast<std::size_t>(i * image_bytes + y * row_bytes),
                                           static_cast<std::size_t>(row_bytes));
      std::copy(row.begin(), row.end(), grid.pixels_hwc.begin() + ((top + y) * grid.width + left) * channels);
    }
  }
  return grid;
}

Image image_grid_nchw(std::span<const float> images_nchw, int64_t channels, int64_t height, int64_t width,
                      const GridOptions& options) {
  return image_grid(to_channels_last(to_bytes(images_nchw), channels, height, width), height, width, channels, options);
}

}  // namespace ddpm::observe
