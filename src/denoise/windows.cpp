#include "denoise/windows.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include "denoise/turns.h"
#include "diffusion/noise.h"

namespace ddpm::denoise {

Windows::Windows(const Patch& patch, uint64_t seed, base::Stream stream, at::Device device,
                 const std::vector<bool>& shifted, const ShownTile& tile)
    : whole_(patch.whole),
      seed_(seed),
      stream_(stream),
      tiled_(!tile.pixels.empty()),
      augmentation_(tile.augmentation) {
  const auto marked = [](const std::vector<bool>& axes, std::size_t axis) { return !axes.empty() && axes[axis]; };
  if (!patch.cuts() && std::ranges::count(shifted, true) == 0 && !tiled_) return;
  const std::vector<int64_t> sides = patch.whole.sides();
  const std::vector<int64_t> places = patch.places();
  for (std::size_t axis = 0; axis < places.size(); ++axis) {
    const int64_t window = patch.window.sides()[axis];
    const layout::Range shown = tiled_ ? tile.pixels.at(axis) : layout::Range{0, window};
    axes_.push_back({.side = sides[axis],
                     .places = marked(shifted, axis) ? sides[axis] : places[axis],
                     .window = window,
                     .shown = shown,
                     .wraps = marked(patch.wraps, axis) || marked(shifted, axis),
                     .offsets = at::arange(shown.size(), at::TensorOptions(device).dtype(at::kLong))});
  }
}

std::vector<int64_t> Windows::sides() const {
  std::vector<int64_t> sides;
  for (const Axis& axis : axes_) sides.push_back(axis.shown.size());
  return sides;
}

/// See Turns.
std::vector<at::Tensor> Windows::shown(const at::Tensor& step, layout::Range positions) const {
  std::vector<at::Tensor> begins;
  const auto number = [&](int64_t n) { return diffusion::step_tensor(static_cast<uint64_t>(n), step.device()); };
  for (const Axis& axis : axes_) begins.push_back(number(axis.shown.begin));
  if (!augmentation_.turns()) return begins;
  const Turns turns = Turns::draw(augmentation_, step, positions);
  const std::size_t row = axes_.size() - 2;
  const std::size_t column = axes_.size() - 1;
  const auto of_stored = [&](std::size_t axis, std::size_t other, const at::Tensor& reversed) {
    const at::Tensor begin = at::where(turns.transposed, begins[other], begins[axis]);
    return at::where(reversed, axes_[axis].window - axes_[axis].shown.size() - begin, begin);
  };
  const at::Tensor rows = of_stored(row, column, turns.rows_reversed);
  const at::Tensor columns = of_stored(column, row, turns.columns_reversed);
  begins[row] = rows;
  begins[column] = columns;
  return begins;
}

std::vector<at::Tensor> Windows::begins(const at::Tensor& step, layout::Range positions) const {
  const diffusion::Draws draws{seed_, step, positions.begin, positions.size()};
  std::vector<at::Tensor> all;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    all.push_back(draws.integers(base::patch_stream(stream_, static_cast<uint32_t>(a)), axes_[a].places));
  }
  if (!tiled_) return all;
  const std::vector<at::Tensor> inside = shown(step, positions);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const at::Tensor begin = all[a] + inside[a];
    all[a] = axes_[a].wraps ? begin.remainder(axes_[a].side) : begin;
  }
  return all;
}

std::vector<at::Tensor> Windows::coordinates(const at::Tensor& step, layout::Range positions) const {
  const std::vector<at::Tensor> first = begins(step, positions);
  std::vector<at::Tensor> all;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const at::Tensor along = first[a].unsqueeze(1) + axes_[a].offsets;
    all.push_back(axes_[a].wraps ? along.remainder(axes_[a].side) : along);
  }
  return all;
}

at::Tensor Windows::pixels(const at::Tensor& step, layout::Range positions) const {
  std::vector<int64_t> sides;
  for (const Axis& axis : axes_) sides.push_back(axis.side);
  return places_of(coordinates(step, positions), sides);
}

data::ImageWindows Windows::to_read() const {
  data::ImageWindows read{.whole = whole_, .sides = sides()};
  std::vector<int64_t> places;
  for (const Axis& axis : axes_) {
    read.wraps.push_back(axis.wraps);
    places.push_back(axis.places);
  }
  if (!tiled_) {
    read.place = data::drawn_places(std::move(places), seed_, stream_);
    return read;
  }
  read.place = [windows = *this](int64_t step, int64_t position) {
    std::vector<int64_t> first;
    for (const at::Tensor& begin :
         windows.begins(diffusion::step_tensor(static_cast<uint64_t>(step), at::kCPU), {position, position + 1})) {
      first.push_back(begin.item<int64_t>());
    }
    return first;
  };
  return read;
}

std::optional<data::ImageWindows> windows_to_read(const Windows& windows, const Patch& patch, bool has_checksums) {
  const bool worth = windows.tiled() || data::is_worth_windows(patch.whole, patch.window, has_checksums);
  if (!windows.cuts() || !worth) return std::nullopt;
  return windows.to_read();
}

at::Tensor places_of(std::span<const at::Tensor> coordinates, std::span<const int64_t> sides) {
  at::Tensor places;
  std::vector<int64_t> shape = {coordinates[0].size(0)};
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis) {
    shape.push_back(coordinates[axis].size(1));
    const at::Tensor along = coordinates[axis].view(shape);
    places = axis == 0 ? along : places.unsqueeze(-1) * sides[axis] + along;
    shape.back() = 1;
  }
  return places.reshape({coordinates[0].size(0), -1, coordinates.back().size(1)});
}

at::Tensor cut(const at::Tensor& values, const at::Tensor& pixels) {
  const int64_t images = values.size(0);
  const int64_t each = values.size(1) * values.size(2);
  at::Tensor places = pixels;
  if (images > 1) places = pixels + (at::arange(images, pixels.options()) * each).view({-1, 1, 1});
  return values.reshape({images * each, values.size(3)})
      .index_select(0, places.flatten())
      .view({pixels.size(0), pixels.size(1), pixels.size(2), values.size(3)});
}

}  // namespace ddpm::denoise
