#include "h5/box.h"

#include <algorithm>

namespace ddpm::h5 {

namespace {

/// Counts `place` up within `extents`, the last axis fastest. False after the last place.
bool next_place(std::vector<uint64_t>& place, const std::vector<uint64_t>& extents) {
  for (std::size_t axis = place.size(); axis-- > 0;) {
    if (++place[axis] < extents[axis]) return true;
    place[axis] = 0;
  }
  return false;
}

}  // namespace

std::vector<Line> lines_of(const BoxCopy& copy, std::span<const uint64_t> shape, std::span<const uint64_t> target,
                           std::size_t element_bytes) {
  const std::vector<uint64_t>& extent = copy.box.extent;
  // Axes from here on are one line: all but the first of them are whole in both arrays.
  std::size_t first = extent.size() - 1;
  uint64_t unit = element_bytes;
  while (first > 0 && extent[first] == shape[first] && extent[first] == target[first]) unit *= extent[first--];
  std::vector<uint64_t> steps(extent.begin(), extent.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<uint64_t> place(first, 0);
  std::vector<Line> lines;
  do {
    uint64_t from = 0;
    uint64_t to = 0;
    for (std::size_t axis = 0; axis <= first; ++axis) {
      const uint64_t step = axis < first ? place[axis] : 0;
      from = from * shape[axis] + copy.box.begin[axis] + step;
      to = to * target[axis] + copy.at[axis] + step;
    }
    lines.push_back({.from = from * unit, .to = to * unit, .bytes = extent[first] * unit});
  } while (next_place(place, steps));
  return lines;
}

void fill_with(std::span<const std::byte> element, std::span<std::byte> out) {
  for (std::size_t at = 0; at < out.size(); at += element.size()) {
    std::ranges::copy(element, out.subspan(at).begin());
  }
}

std::vector<BoxCopy> boxes_of(const Box& window, std::span<const uint64_t> shape) {
  std::vector<BoxCopy> boxes(1);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const uint64_t begin = window.begin[axis];
    const uint64_t before_end = std::min(window.extent[axis], shape[axis] - begin);
    std::vector<BoxCopy> longer;
    for (const BoxCopy& box : boxes) {
      const auto add = [&](uint64_t from, uint64_t extent, uint64_t at) {
        longer.push_back(box);
        longer.back().box.begin.push_back(from);
        longer.back().box.extent.push_back(extent);
        longer.back().at.push_back(at);
      };
      add(begin, before_end, 0);
      if (before_end < window.extent[axis]) add(0, window.extent[axis] - before_end, before_end);
    }
    boxes = std::move(longer);
  }
  return boxes;
}

}  // namespace ddpm::h5
