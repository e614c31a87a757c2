// A rank's tile of each image, beside those of other ranks: the partition of parallel.spatial_size.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "parallel/tile.h"

namespace ddpm::parallel {

class TilePartition final : public Tile {
 public:
  /// Rank r of `ranks`, which outlives the partition and all graphs of it, holds tile r of `tiling`.
  TilePartition(layout::Tiling tiling, const nn::ImageShape& image, comm::Communicator& ranks);

  [[nodiscard]] at::Tensor sum(const at::Tensor& x) const override;
  [[nodiscard]] at::Tensor gather_numbers(const at::Tensor& x) const override;

 private:
  [[nodiscard]] at::Tensor beside(const at::Tensor& x, std::span<const Side> sides) const override;
  [[nodiscard]] at::Tensor joined(const at::Tensor& x, const std::vector<int64_t>& extents) const override;

  comm::Communicator& ranks_;
};

}  // namespace ddpm::parallel
