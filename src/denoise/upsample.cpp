#include "denoise/upsample.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/zeros_like.h>

#include "denoise/windows.h"

namespace ddpm::denoise {
namespace {

/// CoarseAxis::begin() of each window: int64 [n].
at::Tensor begins(const data::CoarseAxis& axis, int64_t side, const at::Tensor& window_begins) {
  if (axis.factor == 1) return window_begins;
  const int64_t read = axis.extent(side);
  if (read == axis.side) return at::zeros_like(window_begins);
  const at::Tensor first = at::floor_divide(2 * window_begins + (1 - axis.factor), 2 * axis.factor);
  return axis.wraps ? first.remainder(axis.side) : first.clamp(0, axis.side - read);
}

/// Places `index`, int64 [n, e], along dimension `dim` of values [n, ...].
at::Tensor taken(const at::Tensor& values, int64_t dim, const at::Tensor& index) {
  std::vector<int64_t> shape = values.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = index.size(1);
  std::vector<int64_t> view(shape.size(), 1);
  view.front() = index.size(0);
  view[static_cast<std::size_t>(dim)] = index.size(1);
  return values.gather(dim, index.view(view).expand(shape));
}

/// Each pixel lies between the centres of two coarse ones; beyond the first and the last centre it has their value.
at::Tensor upsampled(const at::Tensor& values, int64_t dim, const data::CoarseAxis& axis, const at::Tensor& begin,
                     const at::Tensor& coordinates) {
  const int64_t steps = 2 * axis.factor;  // from one coarse centre to the next, in half pixels
  const at::Tensor place = (2 * coordinates + (1 - axis.factor)).clamp_min(0);
  const at::Tensor before = at::floor_divide(place, steps);
  const at::Tensor beyond = place.remainder(steps);
  const at::Tensor after = (before + beyond.gt(0)).clamp_max(axis.side - 1);
  const auto local = [&](const at::Tensor& coarse) { return (coarse - begin.unsqueeze(1)).remainder(axis.side); };
  const at::Tensor one = taken(values, dim, local(before));
  const at::Tensor other = taken(values, dim, local(after));
  std::vector<int64_t> view(static_cast<std::size_t>(values.dim()), 1);
  view.front() = coordinates.size(0);
  view[static_cast<std::size_t>(dim)] = coordinates.size(1);
  const at::Tensor weight = beyond.to(at::kFloat).div(static_cast<double>(steps)).view(view);
  return one + (other - one) * weight;
}

}  // namespace

at::Tensor upsampled_windows(const at::Tensor& values, std::span<const data::CoarseAxis> axes,
                             std::span<const int64_t> sides, bool read, std::span<const at::Tensor> coordinates) {
  at::Tensor fine = values;
  if (axes.size() == 3) fine = values.unflatten(1, {read ? axes[0].extent(sides[0]) : axes[0].side, -1});
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const at::Tensor first = coordinates[a].select(1, 0);
    const at::Tensor begin = read ? begins(axes[a], sides[a], first) : at::zeros_like(first);
    fine = upsampled(fine, static_cast<int64_t>(a) + 1, axes[a], begin, coordinates[a]);
  }
  return axes.size() == 3 ? fine.flatten(1, 2) : fine;
}

at::Tensor places_read(std::span<const data::CoarseAxis> axes, std::span<const int64_t> sides,
                       std::span<const at::Tensor> coordinates) {
  std::vector<at::Tensor> along;
  std::vector<int64_t> whole;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const at::Tensor begin = begins(axes[a], sides[a], coordinates[a].select(1, 0));
    const at::Tensor read = begin.unsqueeze(1) + at::arange(axes[a].extent(sides[a]), begin.options());
    along.push_back(axes[a].wraps ? read.remainder(axes[a].side) : read);
    whole.push_back(axes[a].side);
  }
  return places_of(along, whole);
}

}  // namespace ddpm::denoise
