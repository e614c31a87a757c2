// Windows of images that are read instead of the images: which images are worth it, and which part of each field a
// window needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"
#include "data/field.h"

namespace ddpm::data {

/// Along an axis of an image, the part of a coarser field that a window needs to be upsampled bilinearly with
/// half-pixel centres: `factor` pixels of the image are one of the field's.
struct CoarseAxis {
  int64_t side = 0;    ///< pixels of the whole field along this axis
  int64_t factor = 1;  ///< 1: the field is as fine as the image
  bool wraps = false;  ///< windows go on at the other side

  /// Pixels of the field that are read for a window of `extent` pixels, wherever it lies.
  [[nodiscard]] int64_t extent(int64_t window_extent) const;
  /// Where they begin for a window that begins at `begin`.
  [[nodiscard]] int64_t begin(int64_t window_begin, int64_t window_extent) const;
};

/// Where the window of a position in the global batch of a step begins, along each axis.
using WindowPlaces = std::function<std::vector<int64_t>(int64_t step, int64_t position)>;

/// Draws one of so many `places` along each axis, each equally often: functions of (seed, `first` and the axis, step,
/// position). See base::patch_stream().
WindowPlaces drawn_places(std::vector<int64_t> places, uint64_t seed, base::Stream first);

/// The windows of images at given places.
struct ImageWindows {
  ImageFormat whole = {};           ///< an image of the set
  std::vector<int64_t> sides = {};  ///< extents of a window, in the order of the images' axes
  std::vector<bool> wraps = {};     ///< for each axis, whether windows may go on at the other side
  WindowPlaces place = {};

  /// The axes of a field that is read in blocks, as a window needs them.
  [[nodiscard]] std::vector<CoarseAxis> axes_of(const Field& field) const;
  /// The field as batches hold it: the shape of one that is read in blocks is that of what is read.
  [[nodiscard]] Field read_of(const Field& field) const;
  [[nodiscard]] std::vector<Field> read_of(const std::vector<Field>& fields) const;
  /// Bytes that batches hold for one image and its conditions and masks.
  [[nodiscard]] std::size_t block_bytes(const std::vector<Field>& fields) const;
};

/// Whether windows of `window` are read of images of `whole`: these are large, and windows at most half of them. Where
/// images have checksums, which tell only of whole images, they are larger still.
bool is_worth_windows(const ImageFormat& whole, const ImageFormat& window, bool has_checksums);

}  // namespace ddpm::data
