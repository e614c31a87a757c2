#include "data/prepare/image.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace ddpm::data::prepare {
namespace {

/// Where output pixel (x, y) comes from: start + x * step_x + y * step_y, in pixels of the stored image.
struct Walk {
  std::ptrdiff_t start;
  std::ptrdiff_t step_x;
  std::ptrdiff_t step_y;
};

Walk walk_of(int orientation, int stored_width, int stored_height) {
  const auto w = std::ptrdiff_t{stored_width};
  const auto h = std::ptrdiff_t{stored_height};
  const std::array<Walk, 9> walks = {{
      {0, 1, w},             // no orientation
      {0, 1, w},             // 1: as stored
      {w - 1, -1, w},        // 2: columns reversed
      {h * w - 1, -1, -w},   // 3: both reversed
      {(h - 1) * w, 1, -w},  // 4: rows reversed
      {0, w, 1},             // 5: exchanged
      {(h - 1) * w, -w, 1},  // 6: exchanged, then columns reversed
      {h * w - 1, -w, -1},   // 7: exchanged, both reversed
      {w - 1, w, -1},        // 8: exchanged, then rows reversed
  }};
  return walks[static_cast<std::size_t>(orientation)];
}

template <int Channels, typename T>
void copy_along(const BasicImage<T>& from, BasicImage<T>& to, const Walk& walk) {
  // Tiles keep both sides in cache when rows and columns are exchanged.
  constexpr int kTile = 32;
  for (int y0 = 0; y0 < to.height; y0 += kTile) {
    for (int x0 = 0; x0 < to.width; x0 += kTile) {
      for (int y = y0; y < std::min(y0 + kTile, to.height); ++y) {
        T* out = to.row(y).data() + std::ptrdiff_t{x0} * Channels;
        const T* in = from.pixels.data() + (walk.start + x0 * walk.step_x + y * walk.step_y) * Channels;
        for (int x = x0; x < std::min(x0 + kTile, to.width); ++x, in += walk.step_x * Channels, out += Channels) {
          for (int c = 0; c < Channels; ++c) out[c] = in[c];
        }
      }
    }
  }
}

}  // namespace

template <typename T>
BasicImage<T> upright(BasicImage<T> image, int orientation) {
  DDPM_CHECK(orientation >= 1 && orientation <= 8, "orientation {}", orientation);
  if (orientation == 1) return image;
  const bool exchanged = orientation >= 5;
  BasicImage<T> turned(exchanged ? image.height : image.width, exchanged ? image.width : image.height, image.channels);
  const Walk walk = walk_of(orientation, image.width, image.height);
  image.channels == 1 ? copy_along<1>(image, turned, walk) : copy_along<3>(image, turned, walk);
  return turned;
}

template Image upright(Image image, int orientation);
template FloatImage upright(FloatImage image, int orientation);

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  DDPM_CHECK(image.channels + channels == 4, "{} to {} channels", image.channels, channels);
  Image out(image.width, image.height, channels);
  const std::size_t pixels = std::size_t(image.width) * std::size_t(image.height);
  if (channels == 3) {
    for (std::size_t i = 0; i < pixels; ++i) std::fill_n(&out.pixels[3 * i], 3, image.pixels[i]);
    return out;
  }
  // 0.299, 0.587 and 0.114 in units of 2^-16; they add up to 65536, so that white stays white.
  for (std::size_t i = 0; i < pixels; ++i) {
    const uint8_t* rgb = &image.pixels[3 * i];
    out.pixels[i] = static_cast<uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16U);
  }
  return out;
}

}  // namespace ddpm::data::prepare
