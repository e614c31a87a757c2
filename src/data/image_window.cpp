#include "data/image_window.h"

#include <algorithm>
#include <utility>

namespace ddpm::data {
namespace {

/// Below this, one read of a whole image costs hardly more than those of its lines.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20U;
/// Below this, each read of an image with a checksum is checked: see Dataset::read_window_unconfirmed().
constexpr std::size_t kLargeCheckedBytes = std::size_t{16} << 20U;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

/// The pixels of the field on both sides of the window's first and last pixel, and those between.
int64_t CoarseAxis::extent(int64_t window_extent) const {
  if (factor == 1) return window_extent;
  return std::min(side, (window_extent - 1 + factor - 1) / factor + 2);
}

int64_t CoarseAxis::begin(int64_t window_begin, int64_t window_extent) const {
  if (factor == 1) return window_begin;
  const int64_t read = extent(window_extent);
  const int64_t first = floor_div(2 * window_begin + 1 - factor, 2 * factor);
  if (read == side) return 0;
  return wraps ? (first + side) % side : std::clamp<int64_t>(first, 0, side - read);
}

WindowPlaces drawn_places(std::vector<int64_t> places, uint64_t seed, base::Stream first) {
  return [places = std::move(places), seed, first](int64_t step, int64_t position) {
    std::vector<int64_t> begin;
    for (std::size_t axis = 0; axis < places.size(); ++axis) {
      const base::RandomSequence draw(seed, base::patch_stream(first, static_cast<uint32_t>(axis)),
                                      static_cast<uint64_t>(step), static_cast<uint64_t>(position));
      begin.push_back(draw.below(static_cast<uint32_t>(places[axis])));
    }
    return begin;
  };
}

std::vector<CoarseAxis> ImageWindows::axes_of(const Field& field) const {
  std::vector<CoarseAxis> axes;
  const std::vector<int64_t> fine = whole.sides();
  const std::vector<int64_t> own = field.format().sides();
  for (std::size_t axis = 0; axis < fine.size(); ++axis) {
    axes.push_back({.side = own[axis], .factor = fine[axis] / own[axis], .wraps = !wraps.empty() && wraps[axis]});
  }
  return axes;
}

Field ImageWindows::read_of(const Field& field) const {
  Field read = field;
  if (!field.is_read_in_blocks()) return read;
  const std::vector<CoarseAxis> axes = axes_of(field);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) read.shape[axis] = axes[axis].extent(sides[axis]);
  return read;
}

std::vector<Field> ImageWindows::read_of(const std::vector<Field>& fields) const {
  std::vector<Field> read;
  for (const Field& field : fields) read.push_back(read_of(field));
  return read;
}

std::size_t ImageWindows::block_bytes(const std::vector<Field>& fields) const {
  std::size_t bytes = 0;
  for (const Field& field : fields) bytes += field.is_read_in_blocks() ? read_of(field).bytes() : 0;
  return bytes;
}

bool is_worth_windows(const ImageFormat& whole, const ImageFormat& window, bool has_checksums) {
  return whole.bytes() >= (has_checksums ? kLargeCheckedBytes : kLargeBytes) && window.bytes() <= whole.bytes() / 2;
}

}  // namespace ddpm::data
