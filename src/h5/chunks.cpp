#include "h5/chunks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/pulse.h"

namespace ddpm::h5 {

namespace {

constexpr std::size_t kKeptBytes = std::size_t{64} << 20U;

std::size_t bytes_of(const std::vector<uint64_t>& extents, std::size_t element_bytes) {
  std::size_t bytes = element_bytes;
  for (const uint64_t extent : extents) bytes *= extent;
  return bytes;
}

void turn_bytes(std::span<std::byte> values, std::size_t element_bytes) {
  for (std::size_t i = 0; i < values.size(); i += element_bytes) {
    std::ranges::reverse(values.subspan(i, element_bytes));
  }
}

}  // namespace

ChunkReader::ChunkReader(base::Path path, std::string label, ChunkLayout layout)
    : path_(std::move(path)),
      label_(std::move(label)),
      layout_(std::move(layout)),
      chunk_bytes_(bytes_of(layout_.chunk, layout_.element_bytes)),
      most_kept_(1),
      decoder_(layout_.filters, chunk_bytes_) {
  std::size_t band = 1;
  for (std::size_t axis = 1; axis < layout_.shape.size(); ++axis) {
    band *= chunks_along(layout_.shape[axis], layout_.chunk[axis]);
  }
  most_kept_ = std::clamp<std::size_t>(kKeptBytes / chunk_bytes_, 1, band);
}

void ChunkReader::read_rows(uint64_t first, uint64_t n, std::span<std::byte> out) {
  BoxCopy rows{.box = {.begin = std::vector<uint64_t>(layout_.shape.size(), 0), .extent = layout_.shape},
               .at = std::vector<uint64_t>(layout_.shape.size(), 0)};
  rows.box.begin[0] = first;
  rows.box.extent[0] = n;
  read_box(rows, rows.box.extent, out);
}

void ChunkReader::read_box(const BoxCopy& copy, std::span<const uint64_t> target, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  const std::size_t axes = layout_.shape.size();
  std::vector<uint64_t> first(axes);  // chunk with some of the box, along each axis
  std::vector<uint64_t> count(axes);  // of such chunks
  uint64_t chunks = 1;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const uint64_t begin = copy.box.begin[axis];
    first[axis] = begin / layout_.chunk[axis];
    count[axis] = chunks_along(begin + copy.box.extent[axis], layout_.chunk[axis]) - first[axis];
    chunks *= count[axis];
  }
  std::vector<uint64_t> begin(axes);
  for (uint64_t i = 0; i < chunks; ++i) {
    uint64_t number = 0;
    uint64_t in_axis = chunks;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const uint64_t place = first[axis] + i % in_axis / (in_axis / count[axis]);
      in_axis /= count[axis];
      number = number * chunks_along(layout_.shape[axis], layout_.chunk[axis]) + place;
      begin[axis] = place * layout_.chunk[axis];
    }
    const std::vector<Line> lines = lines_in(begin, copy, target);
    if (lines.front().bytes == chunk_bytes_ && !found_.contains(number)) {
      load(number, out.subspan(lines.front().to, chunk_bytes_));
    } else {
      const std::vector<std::byte>& values = chunk(number);
      for (const Line& line : lines) std::memcpy(&out[line.to], &values[line.from], line.bytes);
    }
    base::pulse();
  }
}

std::vector<Line> ChunkReader::lines_in(std::span<const uint64_t> begin, const BoxCopy& copy,
                                        std::span<const uint64_t> target) const {
  const std::size_t axes = begin.size();
  BoxCopy part{.box = {.begin = std::vector<uint64_t>(axes), .extent = std::vector<uint64_t>(axes)},
               .at = std::vector<uint64_t>(axes)};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const uint64_t from = std::max(copy.box.begin[axis], begin[axis]);
    const uint64_t end = std::min(copy.box.begin[axis] + copy.box.extent[axis], begin[axis] + layout_.chunk[axis]);
    part.box.begin[axis] = from - begin[axis];
    part.box.extent[axis] = end - from;
    part.at[axis] = copy.at[axis] + from - copy.box.begin[axis];
  }
  return lines_of(part, layout_.chunk, target, layout_.element_bytes);
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
