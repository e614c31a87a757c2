// Maps that have a mean and a deviation for each point of an image, as grid transforms are (data/transform.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "data/transform.h"

namespace ddpm::denoise {

class GridMap {
 public:
  GridMap(const data::PointScales& scales, at::Device device);

  /// Means, and 1 / std or 0, as two channels of an image that is cut, mirrored and turned like those it belongs to:
  /// float32 [1, rows, width, 2], the layers of volumes one below the other.
  [[nodiscard]] const at::Tensor& points() const { return points_; }
  /// What the model sees of float32 values x [n, h, w]. `placed` are the numbers of points() where x lies, [n, 2, h,
  /// w], or [1, 2, h, w] of all images alike.
  [[nodiscard]] static at::Tensor seen(const at::Tensor& x, const at::Tensor& placed);
  /// The reverse, of whole images [n, rows, width].
  [[nodiscard]] at::Tensor stored(const at::Tensor& seen) const;

 private:
  at::Tensor points_;
  at::Tensor std_;  // [rows, width]
};

}  // namespace ddpm::denoise
