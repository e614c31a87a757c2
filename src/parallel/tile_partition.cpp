#include "parallel/tile_partition.h"

#include <utility>

#include <ATen/ops/empty.h>

#include "base/check.h"

namespace ddpm::parallel {

TilePartition::TilePartition(layout::Tiling tiling, const nn::ImageShape& image, comm::Communicator* tiles,
                             comm::Communicator* channels)
    : Tile(std::move(tiling), image, tiles == nullptr ? 0 : tiles->rank()), tiles_(tiles), channels_(channels) {
  const int64_t ranks = tiles == nullptr ? 1 : tiles->size();
  DDPM_CHECK(Tile::tiles() == ranks, "{} tiles on {} ranks", Tile::tiles(), ranks);
}

at::Tensor TilePartition::beside(const at::Tensor& x, std::span<const Side> sides) const {
  return with_margins(x, sides, *tiles_);
}

at::Tensor TilePartition::joined(const at::Tensor& x, const std::vector<int64_t>& extents) const {
  return gather_over(x, extents, *tiles_);
}

at::Tensor TilePartition::sum(const at::Tensor& x) const { return tiles_ == nullptr ? x : sum_over(x, *tiles_); }

at::Tensor TilePartition::gather_numbers(const at::Tensor& x) const {
  if (tiles_ == nullptr) return Partition::gather_numbers(x);
  const at::Tensor own = x.contiguous();
  std::vector<int64_t> sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), tiles());
  at::Tensor all = at::empty(sizes, own.options());
  const auto bytes = static_cast<int64_t>(own.nbytes());
  tiles_
      ->all_gather({own.const_data_ptr(), bytes, base::DType::u8},
                   {all.mutable_data_ptr(), tiles() * bytes, base::DType::u8})
      .wait();
  return all;
}

int64_t TilePartition::channel_parts() const { return channels_ == nullptr ? 1 : channels_->size(); }

int64_t TilePartition::channel_part() const { return channels_ == nullptr ? 0 : channels_->rank(); }

at::Tensor TilePartition::to_channel_parts(const at::Tensor& x) const {
  return channels_ == nullptr ? x : spread_over(x, *channels_);
}

at::Tensor TilePartition::sum_channel_parts(const at::Tensor& x) const {
  return channels_ == nullptr ? x : reduce_over(x, *channels_);
}

}  // namespace ddpm::parallel
