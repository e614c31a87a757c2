#include "data/prepare/fit.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/random.h"
#include "data/prepare/resize.h"

namespace ddpm::data::prepare {
namespace {

/// Width and height of the resampled image.
template <typename T>
std::pair<int, int> scaled_sides(const BasicImage<T>& image, const FitOptions& options) {
  const auto [height, width] = options.sides;
  if (options.crop == Crop::none) return {width, height};
  const auto scaled = [](int side, int to, int from) { return static_cast<int>(int64_t{side} * to / from); };
  const bool tall = int64_t{image.width} * height <= int64_t{image.height} * width;
  if (tall) return {width, scaled(image.height, width, image.width)};
  return {scaled(image.width, height, image.height), height};
}

/// Where a window of `size` begins on an axis of `length`.
int crop_offset(int length, int size, const FitOptions& options, uint64_t index, uint64_t axis) {
  const int rest = length - size;
  if (rest == 0) return 0;
  if (options.crop == Crop::center) return rest / 2;
  const base::RandomSequence random(options.seed, base::Stream::crop, 0, index);
  return static_cast<int>(random.below(static_cast<uint32_t>(rest) + 1U, axis));
}

template <typename T>
BasicImage<T> cut(const BasicImage<T>& image, const Window& window) {
  BasicImage<T> out(window.width, window.height, image.channels);
  const auto channels = static_cast<std::size_t>(image.channels);
  for (int y = 0; y < window.height; ++y) {
    const auto row = image.row(window.y + y).subspan(static_cast<std::size_t>(window.x) * channels, out.row_size());
    std::copy(row.begin(), row.end(), out.row(y).begin());
  }
  return out;
}

}  // namespace

template <typename T>
BasicImage<T> fit(const BasicImage<T>& image, const FitOptions& options, uint64_t index) {
  const auto [width, height] = scaled_sides(image, options);
  const Sides& sides = options.sides;
  const Window window{crop_offset(width, sides.width, options, index, 0),
                      crop_offset(height, sides.height, options, index, 1), sides.width, sides.height};
  if (width == image.width && height == image.height) return cut(image, window);
  return resize(image, width, height, window);
}

template Image fit(const Image& image, const FitOptions& options, uint64_t index);
template FloatImage fit(const FloatImage& image, const FitOptions& options, uint64_t index);

}  // namespace ddpm::data::prepare
