// A rank's tile of each image, beside those of its neighbours: the partition of parallel.spatial_size.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "layout/tiling.h"
#include "nn/partition.h"

namespace ddpm::parallel {

class TilePartition final : public nn::Partition {
 public:
  /// Rank r of `ranks`, which outlives the partition and all graphs of it, holds tile r of `tiling`: of the axes depth
  /// (of volumes), height and width. `image` says which of them are periodic.
  TilePartition(layout::Tiling tiling, const nn::ImageShape& image, comm::Communicator& ranks);

  [[nodiscard]] int64_t tiles() const override { return tiling_.count(); }
  [[nodiscard]] int64_t tile() const override { return ranks_.rank(); }
  [[nodiscard]] at::Tensor cut(const at::Tensor& x) const override;
  [[nodiscard]] nn::Halo halo(const at::Tensor& x, nn::ImageAxis axis, int64_t before, int64_t after) const override;
  [[nodiscard]] int64_t depth(const at::Tensor& x) const override;
  [[nodiscard]] at::Tensor sum(const at::Tensor& x) const override;
  [[nodiscard]] at::Tensor gather(const at::Tensor& x) const override;
  [[nodiscard]] at::Tensor gather_numbers(const at::Tensor& x) const override;
  [[nodiscard]] nn::Place place(nn::ImageAxis axis, int64_t extent) const override;

 private:
  /// This rank's pixels along an axis, at full resolution.
  [[nodiscard]] layout::Range pixels(nn::ImageAxis axis) const { return tiling_.pixels(tile(), number(axis)); }
  /// The axis of the tiling.
  [[nodiscard]] std::size_t number(nn::ImageAxis axis) const {
    return static_cast<std::size_t>(static_cast<int64_t>(tiling_.axes()) + static_cast<int64_t>(axis));
  }
  [[nodiscard]] int64_t elements(int64_t tile) const;

  layout::Tiling tiling_;
  nn::ImageShape image_;
  comm::Communicator& ranks_;
};

}  // namespace ddpm::parallel
