// Parts of rows: read line by line from the file, chunk by chunk, or by HDF5.
#include <algorithm>

#include "base/check.h"
#include "h5/box.h"
#include "h5/chunks.h"
#include "h5/file.h"
#include "h5/library.h"
#include "h5/plain_rows.h"

namespace ddpm::h5 {

namespace {

std::vector<uint64_t> unsigned_of(std::span<const int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

void Array::read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                        std::span<std::byte> out) const {
  std::vector<int64_t> begins = {row};
  std::vector<int64_t> extents = {1};
  begins.insert(begins.end(), begin.begin(), begin.end());
  extents.insert(extents.end(), extent.begin(), extent.end());
  read_windows(begins, extents, out);
}

void Array::read_windows(std::span<const int64_t> begin, std::span<const int64_t> extent,
                         std::span<std::byte> out) const {
  DDPM_CHECK(begin.size() == shape_.size() && extent.size() == begin.size(), "{}: a window of {} and {} axes", label_,
             begin.size(), extent.size());
  require_rows(begin.front(), extent.front());
  std::size_t bytes = size_of(element_);
  Box window;
  for (std::size_t axis = 0; axis < begin.size(); ++axis) {
    const int64_t side = shape_[axis];
    DDPM_CHECK(begin[axis] >= 0 && begin[axis] < side && extent[axis] > 0 && extent[axis] <= side,
               "{}: {} of {} from {} on, axis {}", label_, extent[axis], side, begin[axis], axis);
    bytes *= static_cast<std::size_t>(extent[axis]);
    window.begin.push_back(static_cast<uint64_t>(begin[axis]));
    window.extent.push_back(static_cast<uint64_t>(extent[axis]));
  }
  DDPM_CHECK(out.size() == bytes, "{}: {} bytes for a window of {}", label_, out.size(), bytes);
  for (const BoxCopy& copy : boxes_of(window, unsigned_of(shape_))) read_box(copy, window.extent, out);
}

void Array::read_box(const BoxCopy& copy, std::span<const uint64_t> target, std::span<std::byte> out) const {
  if (chunks_) return chunks_->read_box(copy, target, out);
  if (plain_) return plain_->read_lines(lines_of(copy, unsigned_of(shape_), target, size_of(element_)), out);
  const LibraryLock lock;
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
}

}  // namespace ddpm::h5
