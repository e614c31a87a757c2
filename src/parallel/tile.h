// Where a tile lies in its image, and which tiles are beside it: what tiles that compute (parallel/tile_partition.h)
// and tiles that are planned (parallel/planned_tile.h) have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layout/tiling.h"
#include "nn/operations.h"
#include "nn/partition.h"
#include "parallel/differentiable.h"

namespace ddpm::parallel {

class Tile : public nn::Partition {
 public:
  [[nodiscard]] int64_t tiles() const final { return tiling_.count(); }
  [[nodiscard]] int64_t tile() const final { return tile_; }
  [[nodiscard]] at::Tensor cut(const at::Tensor& x) const final;
  [[nodiscard]] at::Tensor whole(const at::Tensor& x) const final;
  [[nodiscard]] nn::Halo halo(const at::Tensor& x, nn::ImageAxis axis, int64_t before, int64_t after) const final;
  [[nodiscard]] nn::Halos halos(const at::Tensor& x, std::span<const nn::ImageAxis> axes, int64_t before,
                                int64_t after) const final;
  [[nodiscard]] std::span<const nn::Offset> neighbours() const final { return neighbours_; }
  [[nodiscard]] int64_t depth(const at::Tensor& x) const final;
  [[nodiscard]] at::Tensor gather(const at::Tensor& x) const final;
  [[nodiscard]] nn::TilePlace place(nn::ImageAxis axis, int64_t extent) const final;
  /// Its pixels, at full resolution.
  [[nodiscard]] nn::ImageSize size() const;

 protected:
  /// Tile number `tile` of `tiling`, whose axes are depth (of volumes), height and width. `image` says which of them
  /// are periodic.
  Tile(layout::Tiling tiling, const nn::ImageShape& image, int64_t tile);

  /// The tile at an offset, which is this one along axes that are not cut; -1: the image ends before it.
  [[nodiscard]] int64_t tile_at(const nn::Offset& offset) const;

 private:
  /// x with what its neighbours hold beside it: see with_margins().
  [[nodiscard]] virtual at::Tensor beside(const at::Tensor& x, std::span<const Side> sides) const = 0;
  [[nodiscard]] std::vector<nn::Offset> find_neighbours() const;
  /// The neighbour of `tile` one step along an axis, on the other side of a periodic one's end; -1: the image ends.
  [[nodiscard]] int64_t step(int64_t tile, nn::ImageAxis axis, int64_t by) const;
  /// The neighbours along an axis that is cut.
  [[nodiscard]] Side side(nn::ImageAxis axis, const Margin& margin) const;
  /// x [N, own, C] of all tiles, of which each holds so many positions.
  [[nodiscard]] virtual at::Tensor joined(const at::Tensor& x, const std::vector<int64_t>& extents) const = 0;

  /// The pixels of this tile along an axis, at full resolution.
  [[nodiscard]] layout::Range pixels(nn::ImageAxis axis) const { return tiling_.pixels(tile_, number(axis)); }
  /// A tile's pixels in images x [N, C, axes..., ...], whose axes are those of the tiling.
  [[nodiscard]] at::Tensor within(at::Tensor x, int64_t tile) const;
  /// The axis of the tiling.
  [[nodiscard]] std::size_t number(nn::ImageAxis axis) const {
    return static_cast<std::size_t>(static_cast<int64_t>(tiling_.axes()) + static_cast<int64_t>(axis));
  }
  [[nodiscard]] int64_t elements(int64_t tile) const;

  layout::Tiling tiling_;
  nn::ImageShape image_;
  int64_t tile_;
  std::vector<nn::Offset> neighbours_;
};

}  // namespace ddpm::parallel
