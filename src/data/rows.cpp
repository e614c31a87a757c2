#include "data/rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/image_block.h"

namespace ddpm::data {

void copy_window(std::span<const std::byte> from, std::span<const int64_t> shape, std::span<const int64_t> begin,
                 std::span<const int64_t> extent, std::span<std::byte> out) {
  if (begin.empty()) return static_cast<void>(std::ranges::copy(from, out.begin()));
  const std::size_t from_step = from.size() / static_cast<std::size_t>(shape[0]);
  const std::size_t out_step = out.size() / static_cast<std::size_t>(extent[0]);
  for (int64_t i = 0; i < extent[0]; ++i) {
    const int64_t place = (begin[0] + i) % shape[0];
    copy_window(from.subspan(static_cast<std::size_t>(place) * from_step, from_step), shape.subspan(1),
                begin.subspan(1), extent.subspan(1), out.subspan(static_cast<std::size_t>(i) * out_step, out_step));
  }
}

std::size_t Rows::row_bytes() const {
  std::size_t bytes = base::size_of(dtype());
  for (const int64_t side : shape()) bytes *= static_cast<std::size_t>(side);
  return bytes;
}

void Rows::read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                       std::span<std::byte> out) const {
  DDPM_CHECK(begin.size() == extent.size() && extent.size() <= shape().size(), "{}: a window of {} axes of {}", label(),
             extent.size(), shape().size());
  std::vector<std::byte> whole(row_bytes());
  read_rows(row, 1, whole);
  copy_window(whole, shape(), begin, extent, out);
}

AbsentRows::AbsentRows(std::string label, std::vector<int64_t> shape, int64_t rows)
    : label_(std::move(label)), shape_(std::move(shape)), rows_(rows) {}

void AbsentRows::read_rows(int64_t /*first*/, int64_t /*n*/, std::span<std::byte> out) const {
  std::ranges::fill(out, std::byte{0});
}

void AbsentRows::read_window(int64_t /*row*/, std::span<const int64_t> /*begin*/, std::span<const int64_t> /*extent*/,
                             std::span<std::byte> out) const {
  std::ranges::fill(out, std::byte{0});
}

StoredRows::StoredRows(h5::Array array, base::Path file, Form form)
    : array_(std::move(array)), file_(std::move(file)), form_(std::move(form)) {}

void StoredRows::read_stored(int64_t first, int64_t n, std::span<std::byte> out) const {
  if (form_.dtype == base::DType::i64) {
    return array_.read_integers(first, n, {reinterpret_cast<int64_t*>(out.data()), out.size() / sizeof(int64_t)});
  }
  const int64_t each = form_.per_set ? array_.rows() : 1;
  array_.read_rows(first * each, n * each, out);
}

void StoredRows::read_rows(int64_t first, int64_t n, std::span<std::byte> out) const {
  if (!form_.channels_first) return read_stored(first, n, out);
  std::vector<std::byte> stored(out.size());
  read_stored(first, n, stored);
  to_channels_last(stored, ImageFormat::of(form_.shape, form_.dtype), out);
}

void StoredRows::read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                             std::span<std::byte> out) const {
  if (form_.per_set) return Rows::read_window(row, begin, extent, out);
  std::vector<int64_t> from(begin.begin(), begin.end());
  std::vector<int64_t> reach(extent.begin(), extent.end());
  while (from.size() < form_.shape.size()) {
    reach.push_back(form_.shape[from.size()]);
    from.push_back(0);
  }
  if (!form_.channels_first) return array_.read_window(row, from, reach, out);
  const ImageFormat format = ImageFormat::of(reach, form_.dtype);
  for (auto* axes : {&from, &reach}) std::rotate(axes->begin(), axes->end() - 1, axes->end());
  std::vector<std::byte> stored(out.size());
  array_.read_window(row, from, reach, stored);
  to_channels_last(stored, format, out);
}

void StoredRows::expect_readable(int64_t first, int64_t n) const {
  const auto begin = array_.file_offset();
  if (!begin) return;
  data::expect_readable(file_, *begin + static_cast<uint64_t>(first) * row_bytes(),
                        static_cast<std::size_t>(n) * row_bytes());
}

}  // namespace ddpm::data
