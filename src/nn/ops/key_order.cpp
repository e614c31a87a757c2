#include "nn/ops/key_order.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>

namespace ddpm::nn {
namespace {

/// The rows of one head, as bytes: row i begins `i * stride` after `first`.
struct Rows {
  Rows(const at::Tensor& t, int64_t heads)
      : data(static_cast<const std::byte*>(t.const_data_ptr())),
        size(static_cast<std::size_t>(t.size(2) / heads * t.element_size())),
        stride(t.size(2) * t.element_size()),
        image(t.size(1) * stride) {}

  [[nodiscard]] const std::byte* row(int64_t n, int64_t head, int64_t i) const {
    return data + n * image + i * stride + head * static_cast<int64_t>(size);
  }

  const std::byte* data;
  std::size_t size;
  int64_t stride;
  int64_t image;
};

/// Which key stands at each place: [N, heads, Lk].
at::Tensor order_of(const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  const at::Tensor order = at::empty({k.size(0), heads, k.size(1)}, at::kLong);
  auto* const places = order.mutable_data_ptr<int64_t>();
  const Rows keys(k, heads);
  const Rows values(v, heads);
  at::parallel_for(0, k.size(0) * heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t each = begin; each < end; ++each) {
      int64_t* const first = places + each * k.size(1);
      std::iota(first, first + k.size(1), 0);
      std::sort(first, first + k.size(1), [&](int64_t a, int64_t b) {
        const auto compare = [&](const Rows& rows) {
          return std::memcmp(rows.row(each / heads, each % heads, a), rows.row(each / heads, each % heads, b),
                             rows.size);
        };
        const int by_key = compare(keys);
        return by_key != 0 ? by_key < 0 : compare(values) < 0;
      });
    }
  });
  return order;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> in_order_of_keys(const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  const at::Tensor order = order_of(k.contiguous(), v.contiguous(), heads).transpose(1, 2).unsqueeze(3);
  const auto sorted = [&](const at::Tensor& x) {
    const at::Tensor split = x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads});
    return at::gather(split, 1, order.expand(split.sizes())).view(x.sizes());
  };
  return {sorted(k), sorted(v)};
}

}  // namespace ddpm::nn
