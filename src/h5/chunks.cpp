#include "h5/chunks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/pulse.h"

namespace ddpm::h5 {

namespace {

constexpr std::size_t kKeptBytes = std::size_t{64} << 20U;

/// Joins trailing axes that a chunk has whole with the elements; returns the bytes of a joined one.
std::size_t join_axes(ChunkLayout& layout) {
  std::size_t bytes = layout.element_bytes;
  while (layout.shape.size() > 1 && layout.shape.back() == layout.chunk.back()) {
    bytes *= layout.shape.back();
    layout.shape.pop_back();
    layout.chunk.pop_back();
  }
  return bytes;
}

std::size_t bytes_of(const std::vector<uint64_t>& extents, std::size_t unit_bytes) {
  std::size_t bytes = unit_bytes;
  for (const uint64_t extent : extents) bytes *= extent;
  return bytes;
}

void turn_bytes(std::span<std::byte> values, std::size_t element_bytes) {
  for (std::size_t i = 0; i < values.size(); i += element_bytes) {
    std::ranges::reverse(values.subspan(i, element_bytes));
  }
}

/// Counts `place` up within `extents`, the last axis fastest. False after the last place.
bool advance(std::vector<uint64_t>& place, const std::vector<uint64_t>& extents) {
  for (std::size_t axis = place.size(); axis-- > 0;) {
    if (++place[axis] < extents[axis]) return true;
    place[axis] = 0;
  }
  return false;
}

}  // namespace

ChunkReader::ChunkReader(base::Path path, std::string label, ChunkLayout layout)
    : path_(std::move(path)),
      label_(std::move(label)),
      layout_(std::move(layout)),
      unit_bytes_(join_axes(layout_)),
      chunk_bytes_(bytes_of(layout_.chunk, unit_bytes_)),
      most_kept_(1),
      decoder_(layout_.filters, chunk_bytes_) {
  std::size_t band = 1;
  for (std::size_t axis = 1; axis < layout_.shape.size(); ++axis) {
    band *= chunks_along(layout_.shape[axis], layout_.chunk[axis]);
  }
  most_kept_ = std::clamp<std::size_t>(kKeptBytes / chunk_bytes_, 1, band);
}

void ChunkReader::read_rows(uint64_t first, uint64_t n, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> grid;  // number of chunks along each axis, of the first only those with the rows
  for (std::size_t axis = 0; axis < layout_.shape.size(); ++axis) {
    grid.push_back(chunks_along(layout_.shape[axis], layout_.chunk[axis]));
  }
  const uint64_t band = first / layout_.chunk[0];
  grid[0] = chunks_along(first + n, layout_.chunk[0]) - band;
  std::vector<uint64_t> place(grid.size(), 0);
  std::vector<uint64_t> begin(grid.size());
  do {
    uint64_t number = place[0] + band;
    for (std::size_t axis = 1; axis < grid.size(); ++axis) number = number * grid[axis] + place[axis];
    for (std::size_t axis = 0; axis < grid.size(); ++axis) begin[axis] = place[axis] * layout_.chunk[axis];
    begin[0] += band * layout_.chunk[0];
    const bool is_rows = grid.size() == 1 && begin[0] >= first && begin[0] + layout_.chunk[0] <= first + n;
    if (is_rows && !found_.contains(number)) {
      load(number, out.subspan((begin[0] - first) * unit_bytes_, chunk_bytes_));
    } else {
      copy(number, begin, first, n, out);
    }
    base::pulse();
  } while (advance(place, grid));
}

void ChunkReader::copy(uint64_t number, std::span<const uint64_t> begin, uint64_t first, uint64_t n,
                       std::span<std::byte> out) {
  const std::vector<std::byte>& values = chunk(number);
  const std::size_t axes = begin.size();
  std::vector<uint64_t> extents(axes);  // of the part that is copied
  for (std::size_t axis = 0; axis < axes; ++axis) {
    extents[axis] = std::min(layout_.chunk[axis], layout_.shape[axis] - begin[axis]);
  }
  const uint64_t from_row = std::max(first, begin[0]);
  extents[0] = std::min(first + n, begin[0] + extents[0]) - from_row;
  const std::size_t run = extents.back() * unit_bytes_;
  extents.back() = 1;
  std::vector<uint64_t> place(axes, 0);
  do {
    std::size_t from = 0;
    std::size_t to = 0;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const uint64_t in_chunk = place[axis] + (axis == 0 ? from_row - begin[0] : 0);
      const uint64_t in_out = axis == 0 ? place[0] + from_row - first : place[axis] + begin[axis];
      from = from * layout_.chunk[axis] + in_chunk;
      to = to * layout_.shape[axis] + in_out;
    }
    std::memcpy(out.data() + to * unit_bytes_, values.data() + from * unit_bytes_, run);
  } while (advance(place, extents));
}

const std::vector<std::byte>& ChunkReader::chunk(uint64_t number) {
  const auto found = found_.find(number);
  if (found != found_.end()) {
    kept_.splice(kept_.begin(), kept_, found->second);
    return kept_.front().values;
  }
  std::vector<std::byte> values;
  if (kept_.size() == most_kept_) {  // its memory serves again
    values = std::move(kept_.back().values);
    found_.erase(kept_.back().number);
    kept_.pop_back();
  }
  values.resize(chunk_bytes_);
  load(number, values);
  kept_.push_front({.number = number, .values = std::move(values)});
  found_.emplace(number, kept_.begin());
  return kept_.front().values;
}

void ChunkReader::load(uint64_t number, std::span<std::byte> values) {
  const ChunkPlace& place = layout_.places[number];
  const bool is_plain = layout_.filters.empty() && place.bytes == values.size();
  base::read_as<base::DatasetError>([&] {
    if (!file_) file_.emplace(path_);
    if (!is_plain) stored_.resize(place.bytes);
    file_->read(place.offset, is_plain ? values : std::span(stored_));
  });
  if (!is_plain) {
    decoder_.decode(place.skipped, fmt::format("{}, chunk {} at byte {}", label_, number, place.offset), stored_,
                    values);
  }
  if (layout_.turned) turn_bytes(values, layout_.element_bytes);
}

}  // namespace ddpm::h5
