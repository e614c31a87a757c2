// A decoded image on its way into a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace ddpm::data::prepare {

/// Leaves new elements unset: a decoder writes every pixel, and clearing them before costs 3 % of reading a JPEG file.
template <typename T>
struct UnsetAllocator : std::allocator<T> {
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};

/// Pixels [height, width, channels], rows from the top, without padding. One channel is grey, three are RGB.
template <typename T>
struct BasicImage {
  using Value = T;

  int width = 0;
  int height = 0;
  int channels = 0;
  std::vector<T, UnsetAllocator<T>> pixels;  ///< unset until written

  BasicImage() = default;
  BasicImage(int w, int h, int c)
      : width(w), height(h), channels(c), pixels(std::size_t(w) * std::size_t(h) * std::size_t(c)) {}

  /// Values in a row.
  [[nodiscard]] std::size_t row_size() const { return std::size_t(width) * std::size_t(channels); }
  [[nodiscard]] std::span<T> row(int y) { return std::span(pixels).subspan(std::size_t(y) * row_size(), row_size()); }
  [[nodiscard]] std::span<const T> row(int y) const {
    return std::span(pixels).subspan(std::size_t(y) * row_size(), row_size());
  }
};

/// 8 bits per value.
using Image = BasicImage<uint8_t>;
/// Values as they were measured: they are stored as they are.
using FloatImage = BasicImage<float>;
using Picture = std::variant<Image, FloatImage>;

/// The image turned upright. `orientation` is that of EXIF (tag 0x0112, TIFF 6.0): 1 as stored, 2 mirrored, 3 turned by
/// 180 degrees, 4 flipped, 5 to 8 the same with rows and columns exchanged first.
template <typename T>
BasicImage<T> upright(BasicImage<T> image, int orientation);

/// The image with 1 (luma of ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B) or 3 channels (grey repeated).
Image with_channels(Image image, int channels);

}  // namespace ddpm::data::prepare
