// data.patch: what training shows the model of each image of a set, a window of it.
#pragma once

#include <cstdint>
#include <vector>

#include "data/field.h"
#include "nn/config.h"

namespace ddpm::denoise {

struct Patch {
  data::ImageFormat whole;   ///< an image of the set
  data::ImageFormat window;  ///< what the model is shown of it
  std::vector<bool> wraps =
      {};  ///< for each axis whether windows may reach across the border to the other side; empty: nowhere

  /// `sides` are those of data.patch, in the order of the images' axes; empty: nothing is cut. Along an axis that is
  /// cut, windows wrap where `model` is periodic. Throws ConfigError for another number of sides than the images have,
  /// and for a side that is longer than theirs.
  static Patch of(const data::ImageFormat& image, const std::vector<int64_t>& sides, const nn::UNet2DConfig& model);
  [[nodiscard]] bool cuts() const { return window != whole; }
  /// How many places a window can have along each axis: all where it wraps, otherwise those inside the image.
  [[nodiscard]] std::vector<int64_t> places() const;
};

/// The axes along which the model is periodic, in the order of images, which have so many.
std::vector<bool> periodic_axes(const nn::UNet2DConfig& model, std::size_t axes);

/// Has the model pad with zeros along the axes that `axes` marks, in the order of images; empty: none. A window's other
/// side is not what lies beyond its border, so that the model of a patch is not periodic where its images are.
void pad_with_zeros(nn::UNet2DConfig& model, const std::vector<bool>& axes);

}  // namespace ddpm::denoise
