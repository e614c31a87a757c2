// Parts of rows: read line by line from the file, chunk by chunk, or by HDF5.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/pulse.h"
#include "h5/box.h"
#include "h5/chunks.h"
#include "h5/file.h"
#include "h5/library.h"

namespace ddpm::h5 {

namespace {

/// Bytes between two lines that are read along rather than left out: a second read would cost more.
constexpr uint64_t kGapBytes = 16 << 10;
/// The most bytes that are read together.
constexpr uint64_t kTogetherBytes = 1 << 20;

std::vector<uint64_t> unsigned_of(std::span<const int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

/// Bytes from the first line to the end of the last.
uint64_t bytes_of(std::span<const Line> group) { return group.back().from + group.back().bytes - group.front().from; }

std::vector<std::span<const Line>> near_lines(std::span<const Line> lines) {
  std::vector<std::span<const Line>> groups;
  for (std::size_t begin = 0; begin < lines.size();) {
    std::size_t end = begin + 1;
    while (end < lines.size() && lines[end].from - (lines[end - 1].from + lines[end - 1].bytes) <= kGapBytes &&
           lines[end].from + lines[end].bytes - lines[begin].from <= kTogetherBytes) {
      ++end;
    }
    groups.push_back(lines.subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

}  // namespace

void Dataset::PlainValues::announce(uint64_t from, uint64_t bytes) {
  base::read_as<base::DatasetError>([&] {
    if (!file) file.emplace(path);
    file->announce(offset + from, bytes);
  });
}

void Dataset::PlainValues::read(uint64_t from, std::span<std::byte> out) {
  base::read_as<base::DatasetError>([&] {
    if (!file) file.emplace(path);
    file->read(offset + from, out);
  });
}

void Dataset::read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                          std::span<std::byte> out) const {
  require_rows(row, 1);
  DDPM_CHECK(begin.size() == shape_.size() - 1 && extent.size() == begin.size(), "{}: a window of {} and {} axes",
             label_, begin.size(), extent.size());
  std::size_t bytes = size_of(element_);
  Box window{.begin = {static_cast<uint64_t>(row)}, .extent = {1}};
  for (std::size_t axis = 0; axis < begin.size(); ++axis) {
    const int64_t side = shape_[axis + 1];
    DDPM_CHECK(begin[axis] >= 0 && begin[axis] < side && extent[axis] > 0 && extent[axis] <= side,
               "{}: {} of {} from {} on, axis {}", label_, extent[axis], side, begin[axis], axis);
    bytes *= static_cast<std::size_t>(extent[axis]);
    window.begin.push_back(static_cast<uint64_t>(begin[axis]));
    window.extent.push_back(static_cast<uint64_t>(extent[axis]));
  }
  DDPM_CHECK(out.size() == bytes, "{}: {} bytes for a window of {}", label_, out.size(), bytes);
  for (const BoxCopy& copy : boxes_of(window, unsigned_of(shape_))) read_box(copy, window.extent, out);
}

void Dataset::read_box(const BoxCopy& copy, std::span<const uint64_t> target, std::span<std::byte> out) const {
  if (chunks_) return chunks_->read_box(copy, target, out);
  const LibraryLock lock;
  if (plain_) return read_lines(lines_of(copy, unsigned_of(shape_), target, size_of(element_)), out);
  const std::vector<hsize_t> start(copy.box.begin.begin(), copy.box.begin.end());
  const std::vector<hsize_t> count(copy.box.extent.begin(), copy.box.extent.end());
  const std::vector<hsize_t> to(copy.at.begin(), copy.at.end());
  const std::vector<hsize_t> shape(target.begin(), target.end());
  checked(H5Sselect_hyperslab(space_.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), label_,
          "select a window");
  const Handle memory = data_space(
      checked(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), label_, "make a shape"));
  checked(H5Sselect_hyperslab(memory.id(), H5S_SELECT_SET, to.data(), nullptr, count.data(), nullptr), label_,
          "select a window");
  checked_read(
      [&] { return H5Dread(handle_.id(), memory_type(element_), memory.id(), space_.id(), H5P_DEFAULT, out.data()); },
      label_, fmt::format("read a window of row {}", copy.box.begin.front()));
  base::pulse();
}

/// Lines come in the order of the file. Near ones are read together, with what lies between them. The kernel is told of
/// all of them first, so that a disk has many requests at a time.
void Dataset::read_lines(std::span<const Line> lines, std::span<std::byte> out) const {
  const std::vector<std::span<const Line>> groups = near_lines(lines);
  if (groups.size() > 1) {
    for (const std::span<const Line> group : groups) plain_->announce(group.front().from, bytes_of(group));
  }
  for (const std::span<const Line> group : groups) {
    const Line& first = group.front();
    if (group.size() == 1) {
      plain_->read(first.from, out.subspan(first.to, first.bytes));
      continue;
    }
    plain_->near.resize(bytes_of(group));
    plain_->read(first.from, plain_->near);
    for (const Line& line : group) std::memcpy(&out[line.to], &plain_->near[line.from - first.from], line.bytes);
  }
}

}  // namespace ddpm::h5
