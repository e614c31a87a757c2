// Maps that are straight lines between points, as quantile transforms are (data/transform.h).
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace ddpm::denoise {

/// A map that grows, in float32 on one device. Nothing waits for the device.
class PointMap {
 public:
  /// `from` and `to` have the same size, at least 2, and grow.
  PointMap(const std::vector<double>& from, const std::vector<double>& to, at::Device device);
  [[nodiscard]] PointMap inverse() const { return {to_, from_}; }

  /// Between from_k and from_(k+1) it is to_k + (x - from_k) · (to_(k+1) - to_k) / (from_(k+1) - from_k). Before the
  /// first point and behind the last one the outer lines go on.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  PointMap(at::Tensor from, at::Tensor to);

  at::Tensor from_;   // [points]
  at::Tensor to_;     // [points]
  at::Tensor slope_;  // [points - 1]
};

}  // namespace ddpm::denoise
