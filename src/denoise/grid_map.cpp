#include "denoise/grid_map.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

namespace ddpm::denoise {

GridMap::GridMap(const data::PointScales& scales, at::Device device) {
  const int64_t width = scales.sides.back();
  const auto image_of = [&](const std::vector<float>& numbers) {
    return at::tensor(numbers, at::kFloat).view({-1, width}).to(device);
  };
  std_ = image_of(scales.std);
  const at::Tensor inverse = at::where(std_.gt(0.0), std_.reciprocal(), at::zeros_like(std_));
  points_ = at::stack({image_of(scales.mean), inverse}, -1).unsqueeze(0);
}

at::Tensor GridMap::seen(const at::Tensor& x, const at::Tensor& placed) {
  return (x - placed.select(1, 0)) * placed.select(1, 1);
}

at::Tensor GridMap::stored(const at::Tensor& seen) const { return seen * std_ + points_.select(0, 0).select(-1, 0); }

}  // namespace ddpm::denoise
