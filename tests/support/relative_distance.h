// How far tensors lie apart.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

namespace ddpm::test {

/// ‖a − b‖ / ‖b‖
inline double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

}  // namespace ddpm::test
