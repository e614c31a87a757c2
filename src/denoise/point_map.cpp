#include "denoise/point_map.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/tensor.h>

namespace ddpm::denoise {

PointMap::PointMap(const std::vector<double>& from, const std::vector<double>& to, at::Device device)
    : PointMap(at::tensor(from, at::kDouble).to(device, at::kFloat),
               at::tensor(to, at::kDouble).to(device, at::kFloat)) {}

PointMap::PointMap(at::Tensor from, at::Tensor to)
    : from_(std::move(from)), to_(std::move(to)), slope_(at::diff(to_) / at::diff(from_)) {}

at::Tensor PointMap::operator()(const at::Tensor& x) const {
  const at::Tensor line = at::bucketize(x.contiguous(), from_.slice(0, 1, -1).contiguous());
  return to_.take(line) + (x - from_.take(line)) * slope_.take(line);
}

}  // namespace ddpm::denoise
