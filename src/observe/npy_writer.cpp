#include <bit>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "observe/npy.h"

namespace ddpm::observe {

namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they are in memory");

/// "(2, 3, 4)", "(5,)", "()": a Python tuple.
std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

/// Magic, version 1.0, length of what follows (uint16), the dictionary, spaces and a line's end up to a multiple of 64.
std::string npy_header(const std::vector<int64_t>& shape) {
  constexpr std::size_t kPrelude = 10;
  constexpr std::size_t kAlignment = 64;
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape_text(shape));
  text.append(kAlignment - 1 - (kPrelude + text.size()) % kAlignment, ' ').push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(text.size() & 0xFFU));
  header.push_back(static_cast<char>(text.size() >> 8U));
  return header + text;
}

}  // namespace

NpyWriter::NpyWriter(base::FileSystem& files, base::Path path, std::vector<int64_t> shape)
    : path_(std::move(path)), staged_(files, path_) {
  for (const int64_t extent : shape) {
    DDPM_CHECK(extent >= 0, "shape {}", shape_text(shape));
    remaining_ *= extent;
  }
  file_ = files.create_exclusive(staged_.path());
  file_->write(npy_header(shape));
}

void NpyWriter::append(std::span<const float> elements) {
  const auto count = static_cast<int64_t>(elements.size());
  DDPM_CHECK(count <= remaining_, "{} elements for {} free places of {}", count, remaining_, path_.string());
  file_->write(std::as_bytes(elements));
  remaining_ -= count;
}

void NpyWriter::commit() {
  DDPM_CHECK(remaining_ == 0, "{} elements of {} were not written", remaining_, path_.string());
  file_->sync();
  file_->close();
  staged_.publish();
}

}  // namespace ddpm::observe
