#include "parallel/tile_partition.h"

#include <utility>

#include <ATen/ops/empty.h>

#include "base/check.h"

namespace ddpm::parallel {

TilePartition::TilePartition(layout::Tiling tiling, const nn::ImageShape& image, comm::Communicator& ranks)
    : Tile(std::move(tiling), image, ranks.rank()), ranks_(ranks) {
  DDPM_CHECK(tiles() == ranks.size(), "{} tiles on {} ranks", tiles(), ranks.size());
}

at::Tensor TilePartition::beside(const at::Tensor& x, std::span<const Side> sides) const {
  return with_margins(x, sides, ranks_);
}

at::Tensor TilePartition::joined(const at::Tensor& x, const std::vector<int64_t>& extents) const {
  return gather_over(x, extents, ranks_);
}

at::Tensor TilePartition::sum(const at::Tensor& x) const { return sum_over(x, ranks_); }

at::Tensor TilePartition::gather_numbers(const at::Tensor& x) const {
  const at::Tensor own = x.contiguous();
  std::vector<int64_t> sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), tiles());
  at::Tensor all = at::empty(sizes, own.options());
  const auto bytes = static_cast<int64_t>(own.nbytes());
  ranks_
      .all_gather({own.const_data_ptr(), bytes, base::DType::u8},
                  {all.mutable_data_ptr(), tiles() * bytes, base::DType::u8})
      .wait();
  return all;
}

}  // namespace ddpm::parallel
