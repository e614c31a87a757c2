// Antialiased bilinear resampling.
#pragma once

#include "data/prepare/image.h"

namespace ddpm::data::prepare {

/// Columns [x, x + width) and rows [y, y + height) of an image.
struct Window {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

/// `window` of the image resampled to `width` x `height`; nothing outside the window is computed.
///
/// Each axis in turn is a convolution with a triangle centred on the output pixel, whose half-width is one input pixel,
/// or when shrinking one output pixel (max(1, in / out) input pixels), cut at the border and normalised: the filter of
/// Pillow's `resize(BILINEAR)` and of torchvision's `antialias=True`. Sums are float32 and rounded once at the end;
/// Pillow rounds between the axes too, so the two differ by at most one grey level. The same bytes on every machine.
/// Values of float32 are not rounded.
template <typename T>
BasicImage<T> resize(const BasicImage<T>& image, int width, int height, const Window& window);
template <typename T>
BasicImage<T> resize(const BasicImage<T>& image, int width, int height) {
  return resize(image, width, height, {0, 0, width, height});
}

}  // namespace ddpm::data::prepare
