// Where the windows of data.patch lie in the images of a batch, and cutting them out, on the device that computes.
// Nothing waits for the device, so that a recorded step can be replayed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/random.h"
#include "data/dataset.h"
#include "data/image_window.h"
#include "denoise/augmentation.h"
#include "denoise/patch.h"
#include "layout/range.h"

namespace ddpm::denoise {

/// A part of each window that is shown (parallel.spatial_size): the same pixels of all, as they are seen, and so other
/// ones of what is stored where windows are mirrored and turned. Where they are transposed it is as high as wide.
struct ShownTile {
  std::vector<layout::Range> pixels;  ///< along each axis; empty: all
  Augmentation augmentation = {};     ///< what moves windows before they are seen
};

class Windows {
 public:
  /// Nothing is cut.
  Windows() = default;
  /// Places are drawn from (seed, `stream` of the axis, step, position in the global batch), each equally often.
  /// `stream` is base::Stream::patch or validation_patch. Along the axes that `shifted` marks, which are not cut, whole
  /// images begin at any pixel and go on at the other side; empty: along none. Of a `tile`, all that is said here of
  /// windows is said of the tile of each.
  Windows(const Patch& patch, uint64_t seed, base::Stream stream, at::Device device,
          const std::vector<bool>& shifted = {}, const ShownTile& tile = {});

  [[nodiscard]] bool cuts() const { return !axes_.empty(); }
  /// Whether tiles are cut, which are read by themselves in any case.
  [[nodiscard]] bool tiled() const { return tiled_; }
  /// Sides of a window. cuts() before.
  [[nodiscard]] std::vector<int64_t> sides() const;
  /// Rows of a window, of volumes those of each layer. cuts() before.
  [[nodiscard]] int64_t height() const { return axes_.at(axes_.size() - 2).offsets.size(0); }
  /// For each position the coordinates of its window along each axis: int64 [n, side of the window]. `step` as below.
  [[nodiscard]] std::vector<at::Tensor> coordinates(const at::Tensor& step, layout::Range positions) const;
  /// For each position the pixels of its window, as places in the whole image, whose rows follow each other: int64
  /// [n, rows, width]. `step` is int64, one number, on the device. cuts() before.
  [[nodiscard]] at::Tensor pixels(const at::Tensor& step, layout::Range positions) const;

  /// What is read where windows are read in place of whole images: for places that any rank may ask for. cuts() before.
  [[nodiscard]] data::ImageWindows to_read() const;

 private:
  struct Axis {
    int64_t side = 0;     // length of the whole image
    int64_t places = 0;   // at how many places a window can begin
    int64_t window = 0;   // length of the window
    layout::Range shown;  // which pixels of the window are shown
    bool wraps = false;
    at::Tensor offsets;  // int64: 0, 1, ..., one for each pixel that is shown
  };
  /// Where the windows of these positions begin along each axis: int64 [n] each.
  [[nodiscard]] std::vector<at::Tensor> begins(const at::Tensor& step, layout::Range positions) const;
  /// Where what is shown begins in each window, of the pixels that are stored: int64 [n], or one number.
  [[nodiscard]] std::vector<at::Tensor> shown(const at::Tensor& step, layout::Range positions) const;

  data::ImageFormat whole_;
  std::vector<Axis> axes_;
  uint64_t seed_ = 0;
  base::Stream stream_ = base::Stream::patch;
  bool tiled_ = false;
  Augmentation augmentation_;
};

/// What is read of the images of a set in place of whole ones: tiles, and windows where images are large; nothing:
/// whole images are read, and windows are cut out of them on the device. `has_checksums`: the set's images have some,
/// which tell only of whole images.
std::optional<data::ImageWindows> windows_to_read(const Windows& windows, const Patch& patch, bool has_checksums);

/// Where the pixels at these coordinates of each axis, int64 [n, side] each, lie in an array of `sides`, whose rows
/// follow each other: int64 [n, rows, width].
at::Tensor places_of(std::span<const at::Tensor> coordinates, std::span<const int64_t> sides);

/// The pixels [n, h, w] of images: values [m, rows, width, c] become [n, h, w, c]. m is n, or 1: all are of one image.
at::Tensor cut(const at::Tensor& values, const at::Tensor& pixels);

}  // namespace ddpm::denoise
