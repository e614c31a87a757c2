#include "parallel/tile.h"

#include <array>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace ddpm::parallel {

using nn::ImageAxis;

Tile::Tile(layout::Tiling tiling, const nn::ImageShape& image, int64_t tile)
    : tiling_(std::move(tiling)), image_(image), tile_(tile) {
  if (tiling_.count() > 1) neighbours_ = find_neighbours();
}

int64_t Tile::step(int64_t tile, ImageAxis axis, int64_t by) const {
  const std::size_t a = number(axis);
  const int64_t to = tiling_.coordinate(tile, a) + by;
  const bool ends = to < 0 || to == tiling_.parts(a);
  return ends && !image_.is_periodic(axis) ? -1 : tiling_.beside(tile, a, by);
}

Side Tile::side(ImageAxis axis, const Margin& margin) const {
  return {.dim = static_cast<int64_t>(axis),
          .margin = margin,
          .neighbours = {.before = step(tile_, axis, -1), .after = step(tile_, axis, 1)}};
}

int64_t Tile::tile_at(const nn::Offset& offset) const {
  int64_t tile = tile_;
  for (std::size_t i = 0; i < offset.size() && tile >= 0; ++i) {
    if (offset.at(i) != 0) tile = step(tile, static_cast<ImageAxis>(-1 - static_cast<int>(i)), offset.at(i));
  }
  return tile;
}

std::vector<nn::Offset> Tile::find_neighbours() const {
  std::vector<nn::Offset> all;
  nn::Offset offset = {-1, -1, tiling_.axes() == 3 ? -1 : 0};
  const auto next = [&] {
    for (std::size_t i = 0; i < tiling_.axes(); ++i) {
      if (++offset.at(i) <= 1) return true;
      offset.at(i) = -1;
    }
    return false;
  };
  do {
    if (offset != nn::Offset{} && tile_at(offset) >= 0) all.push_back(offset);
  } while (next());
  return all;
}

nn::Halo Tile::halo(const at::Tensor& x, ImageAxis axis, int64_t before, int64_t after) const {
  if (before == 0 && after == 0) return {x, false};
  if (tiling_.parts(number(axis)) == 1) {
    return image_.is_periodic(axis) ? nn::Halo{nn::wrapped(x, axis, before, after), true} : nn::Halo{x, false};
  }
  const std::array sides = {side(axis, {before, after})};
  return {beside(x, sides), true};
}

/// All at once where all are cut: x is copied once.
nn::Halos Tile::halos(const at::Tensor& x, std::span<const ImageAxis> axes, int64_t before, int64_t after) const {
  std::vector<Side> sides;
  for (const ImageAxis axis : axes) {
    if (tiling_.parts(number(axis)) > 1) sides.push_back(side(axis, {before, after}));
  }
  if (sides.size() < axes.size() || before + after == 0) return Partition::halos(x, axes, before, after);
  return {beside(x, sides), std::vector<bool>(axes.size(), true)};
}

int64_t Tile::depth(const at::Tensor& x) const {
  if (tiling_.axes() == 2) return 0;
  return pixels(ImageAxis::depth).size() * x.size(3) / pixels(ImageAxis::width).size();
}

at::Tensor Tile::gather(const at::Tensor& x) const {
  if (tiles() == 1) return x;
  // At the resolution of x each tile has its share of the pixels.
  std::vector<int64_t> extents;
  const int64_t own = elements(tile_);
  for (int64_t tile = 0; tile < tiles(); ++tile) extents.push_back(elements(tile) * x.size(1) / own);
  return joined(x, extents);
}

nn::ImageSize Tile::size() const {
  return {.height = pixels(ImageAxis::height).size(),
          .width = pixels(ImageAxis::width).size(),
          .depth = tiling_.axes() == 2 ? 0 : pixels(ImageAxis::depth).size()};
}

nn::TilePlace Tile::place(ImageAxis axis, int64_t extent) const {
  const layout::Range own = pixels(axis);
  return {.first = own.begin * extent / own.size(), .total = tiling_.side(number(axis)) * extent / own.size()};
}

at::Tensor Tile::within(at::Tensor x, int64_t tile) const {
  for (std::size_t axis = 0; axis < tiling_.axes(); ++axis) {
    const layout::Range own = tiling_.pixels(tile, axis);
    x = x.narrow(static_cast<int64_t>(axis) + 2, own.begin, own.size());
  }
  return x;
}

at::Tensor Tile::cut(const at::Tensor& x) const {
  if (tiling_.axes() == 2) return within(x, tile_).contiguous(x.suggest_memory_format());
  return within(x.unflatten(2, {tiling_.side(0), tiling_.side(1)}), tile_)
      .flatten(2, 3)
      .contiguous(x.suggest_memory_format());
}

at::Tensor Tile::whole(const at::Tensor& x) const {
  const at::Tensor positions = gather(x.flatten(2).transpose(1, 2));  // pixels of one tile after the other
  std::vector<int64_t> sizes = {x.size(0), x.size(1)};
  for (std::size_t axis = 0; axis < tiling_.axes(); ++axis) sizes.push_back(tiling_.side(axis));
  at::Tensor images = at::empty(sizes, x.options());
  int64_t first = 0;
  for (int64_t tile = 0; tile < tiles(); ++tile) {
    const at::Tensor place = within(images, tile);
    place.copy_(positions.narrow(1, first, elements(tile)).transpose(1, 2).view_as(place));
    first += elements(tile);
  }
  return tiling_.axes() == 2 ? images : images.flatten(2, 3);
}

int64_t Tile::elements(int64_t tile) const {
  int64_t elements = 1;
  for (std::size_t axis = 0; axis < tiling_.axes(); ++axis) elements *= tiling_.pixels(tile, axis).size();
  return elements;
}

}  // namespace ddpm::parallel
