// Tensors of known values, and how far two lie apart.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>

namespace ddpm::nn::test {

/// sin(scale · index) of each element.
inline at::Tensor waves(at::IntArrayRef shape, double scale) {
  return at::sin(at::arange(c10::multiply_integers(shape), at::kFloat) * scale).reshape(shape);
}

/// Relative to the greatest value of `wanted`; huge for other sizes.
inline double difference(const at::Tensor& seen, const at::Tensor& wanted) {
  if (seen.sizes() != wanted.sizes()) return 1e9;
  return ((seen - wanted).abs().max() / wanted.abs().max()).item<double>();
}

}  // namespace ddpm::nn::test
