#include "layout/tiling.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::layout {

std::vector<int64_t> Tiling::parts_of(std::vector<int64_t> asked, std::size_t axes) {
  if (asked.size() != 1) return asked;
  std::vector<int64_t> parts(axes, 1);
  parts[axes - 2] = asked.front();
  return parts;
}

std::string Tiling::refusal(const std::vector<int64_t>& sides, const std::vector<int64_t>& parts, int64_t unit,
                            std::string asked) {
  if (asked.empty()) asked = fmt::format("parallel.spatial_size = [{}]", fmt::join(parts, ", "));
  if (sides.size() != parts.size()) {
    return fmt::format("{} for images of {} pixels; wanted: a number for each axis", asked, fmt::join(sides, " × "));
  }
  for (std::size_t axis = 0; axis < sides.size(); ++axis) {
    const int64_t units = sides[axis] / unit;
    if (parts[axis] >= 1 && parts[axis] <= units) continue;
    return fmt::format(
        "{} cuts a side of {} pixels into {} parts; the model halves images, so that parts are multiples of {} pixels: "
        "there can be 1 to {}",
        asked, sides[axis], parts[axis], unit, units);
  }
  return "";
}

Tiling::Tiling(std::vector<int64_t> sides, std::vector<int64_t> parts, int64_t unit)
    : sides_(std::move(sides)), parts_(std::move(parts)), unit_(unit) {
  if (const std::string why = refusal(sides_, parts_, unit_); !why.empty()) throw base::ConfigError("{}", why);
}

int64_t Tiling::count() const {
  int64_t tiles = 1;
  for (const int64_t parts : parts_) tiles *= parts;
  return tiles;
}

int64_t Tiling::stride(std::size_t axis) const {
  int64_t stride = 1;
  for (std::size_t later = axis + 1; later < parts_.size(); ++later) stride *= parts_[later];
  return stride;
}

int64_t Tiling::coordinate(int64_t tile, std::size_t axis) const { return tile / stride(axis) % parts_[axis]; }

int64_t Tiling::beside(int64_t tile, std::size_t axis, int64_t step) const {
  const int64_t here = coordinate(tile, axis);
  const int64_t there = (here + step + parts_[axis]) % parts_[axis];
  return tile + (there - here) * stride(axis);
}

int64_t Tiling::inner() const {
  int64_t tile = 0;
  for (std::size_t axis = 0; axis < parts_.size(); ++axis) tile += parts_[axis] > 2 ? stride(axis) : 0;
  return tile;
}

Range Tiling::pixels(int64_t tile, std::size_t axis) const {
  return aligned_part(sides_[axis], parts_[axis], coordinate(tile, axis), unit_);
}

std::vector<Range> Tiling::cut_pixels(int64_t tile) const {
  std::vector<Range> all;
  if (count() == 1) return all;
  for (std::size_t axis = 0; axis < axes(); ++axis) all.push_back(pixels(tile, axis));
  return all;
}

}  // namespace ddpm::layout
