#include "denoise/positions.h"

#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>

namespace ddpm::denoise {

at::Tensor positions_along(int64_t extent) {
  const at::Tensor angles = at::arange(extent, at::kDouble) * (2.0 * std::numbers::pi / static_cast<double>(extent));
  return at::stack({at::sin(angles), at::cos(angles)}, -1).to(at::kFloat);
}

at::Tensor positions_at(const std::vector<at::Tensor>& tables, const std::vector<at::Tensor>& coordinates) {
  std::vector<int64_t> grid = {coordinates.front().size(0)};
  for (const at::Tensor& along : coordinates) grid.push_back(along.size(1));
  grid.push_back(2);
  std::vector<at::Tensor> channels;
  for (std::size_t axis = 0; axis < tables.size(); ++axis) {
    std::vector<int64_t> view(grid.size(), 1);
    view.front() = grid.front();
    view[axis + 1] = grid[axis + 1];
    view.back() = 2;
    channels.push_back(tables[axis].index_select(0, coordinates[axis].flatten()).view(view).expand(grid));
  }
  const at::Tensor all = at::cat(channels, -1);
  return grid.size() == 5 ? all.flatten(1, 2) : all;
}

at::Tensor all_positions(const data::ImageFormat& image) {
  std::vector<at::Tensor> tables;
  std::vector<at::Tensor> coordinates;
  for (const int64_t side : image.sides()) {
    tables.push_back(positions_along(side));
    coordinates.push_back(at::arange(side, at::kLong).unsqueeze(0));
  }
  return positions_at(tables, coordinates).squeeze(0);
}

}  // namespace ddpm::denoise
