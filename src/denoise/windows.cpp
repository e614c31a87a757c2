#include "denoise/windows.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "diffusion/noise.h"

namespace ddpm::denoise {

Windows::Windows(const Patch& patch, uint64_t seed, base::Stream stream, at::Device device,
                 const std::vector<bool>& shifted)
    : whole_(patch.whole), seed_(seed), stream_(stream) {
  const auto marked = [](const std::vector<bool>& axes, std::size_t axis) { return !axes.empty() && axes[axis]; };
  if (!patch.cuts() && std::ranges::count(shifted, true) == 0) return;
  const std::vector<int64_t> sides = patch.whole.sides();
  const std::vector<int64_t> places = patch.places();
  for (std::size_t axis = 0; axis < places.size(); ++axis) {
    axes_.push_back({.side = sides[axis],
                     .places = marked(shifted, axis) ? sides[axis] : places[axis],
                     .wraps = marked(patch.wraps, axis) || marked(shifted, axis),
                     .offsets = at::arange(patch.window.sides()[axis], at::TensorOptions(device).dtype(at::kLong))});
  }
}

std::vector<at::Tensor> Windows::coordinates(const at::Tensor& step, layout::Range positions) const {
  const diffusion::Draws draws{seed_, step, positions.begin, positions.size()};
  std::vector<at::Tensor> all;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const Axis& axis = axes_[a];
    const at::Tensor first = draws.integers(base::patch_stream(stream_, static_cast<uint32_t>(a)), axis.places);
    const at::Tensor along = first.unsqueeze(1) + axis.offsets;
    all.push_back(axis.wraps ? along.remainder(axis.side) : along);
  }
  return all;
}

at::Tensor Windows::pixels(const at::Tensor& step, layout::Range positions) const {
  std::vector<int64_t> sides;
  for (const Axis& axis : axes_) sides.push_back(axis.side);
  return places_of(coordinates(step, positions), sides);
}

data::ImageWindows Windows::to_read() const {
  data::ImageWindows read{.whole = whole_};
  std::vector<int64_t> places;
  for (const Axis& axis : axes_) {
    read.sides.push_back(axis.offsets.size(0));
    read.wraps.push_back(axis.wraps);
    places.push_back(axis.places);
  }
  read.place = data::drawn_places(std::move(places), seed_, stream_);
  return read;
}

std::optional<data::ImageWindows> windows_to_read(const Windows& windows, const Patch& patch,
                                                  const data::Dataset& dataset) {
  const bool worth = data::is_worth_windows(patch.whole, patch.window, dataset.has_checksums());
  if (!windows.cut() || !worth) return std::nullopt;
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
