#include "data/prepare/fit.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/random.h"
#include "data/prepare/resize.h"

namespace ddpm::data::prepare {
namespace {

/// Width and height of the resampled image.
std::pair<int, int> scaled_sides(const Image& image, const FitOptions& options) {
  if (options.crop == Crop::none) return {options.size, options.size};
  const int shorter = std::min(image.width, image.height);
  const auto scaled = [&](int side) { return static_cast<int>(int64_t{side} * options.size / shorter); };
  return {scaled(image.width), scaled(image.height)};
}

/// Where a square of `size` begins on an axis of `length`.
int crop_offset(int length, const FitOptions& options, uint64_t index, uint64_t axis) {
  const int rest = length - options.size;
  if (rest == 0) return 0;
  if (options.crop == Crop::center) return rest / 2;
  const base::RandomSequence random(options.seed, base::Stream::crop, 0, index);
  return static_cast<int>(random.below(static_cast<uint32_t>(rest) + 1U, axis));
}

Image cut(const Image& image, const Window& window) {
  Image out(window.width, window.height, image.channels);
  const auto channels = static_cast<std::size_t>(image.channels);
  for (int y = 0; y < window.height; ++y) {
    const auto row = image.row(window.y + y).subspan(static_cast<std::size_t>(window.x) * channels, out.row_bytes());
    std::copy(row.begin(), row.end(), out.row(y).begin());
  }
  return out;
}

}  // namespace

Image fit(const Image& image, const FitOptions& options, uint64_t index) {
  const auto [width, height] = scaled_sides(image, options);
  const Window window{crop_offset(width, options, index, 0), crop_offset(height, options, index, 1), options.size,
                      options.size};
  if (width == image.width && height == image.height) return cut(image, window);
  return resize(image, width, height, window);
}

}  // namespace ddpm::data::prepare
