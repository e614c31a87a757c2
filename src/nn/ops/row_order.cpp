#include "nn/ops/row_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace ddpm::nn {
namespace {

/// Sorts the `count` rows of one image, of `size` bytes each, from `rows` to `sorted`.
void sort_image(const std::byte* rows, std::size_t size, int64_t count, std::byte* sorted, int64_t* places) {
  const auto row = [rows, size](int64_t i) { return rows + static_cast<std::size_t>(i) * size; };
  std::vector<int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return std::memcmp(row(a), row(b), size) < 0; });
  int64_t first_alike = 0;
  for (int64_t place = 0; place < count; ++place) {
    const int64_t from = order[static_cast<std::size_t>(place)];
    const std::byte* before = row(order[static_cast<std::size_t>(first_alike)]);
    if (std::memcmp(row(from), before, size) != 0) first_alike = place;
    places[from] = first_alike;
    std::memcpy(sorted + static_cast<std::size_t>(place) * size, row(from), size);
  }
}

}  // namespace

SortedRows sort_rows(const at::Tensor& rows) {
  const at::Tensor from = rows.contiguous();
  SortedRows made{.rows = at::empty_like(from), .places = at::empty({from.size(0), from.size(1)}, at::kLong)};
  const std::size_t size = static_cast<std::size_t>(from.size(2)) * from.element_size();
  const std::size_t image = static_cast<std::size_t>(from.size(1)) * size;
  const auto* first = static_cast<const std::byte*>(from.const_data_ptr());
  auto* sorted = static_cast<std::byte*>(made.rows.mutable_data_ptr());
  auto* places = made.places.mutable_data_ptr<int64_t>();
  at::parallel_for(0, from.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const std::size_t offset = static_cast<std::size_t>(n) * image;
      sort_image(first + offset, size, from.size(1), sorted + offset, places + n * from.size(1));
    }
  });
  return made;
}

at::Tensor at_former_places(const at::Tensor& computed, const at::Tensor& places) {
  return computed.gather(1, places.unsqueeze(2).expand(computed.sizes()));
}

}  // namespace ddpm::nn
