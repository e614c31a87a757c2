// How images are cut into tiles, for ranks that hold a part of each image (parallel.spatial_size).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/range.h"

namespace ddpm::layout {

class Tiling {
 public:
  Tiling() = default;  ///< images of any size, whole
  /// Images of `sides` pixels, cut along each axis into so many `parts`: of multiples of `unit` pixels, as equal as
  /// they can be, the larger ones first. Throws ConfigError with what refusal() says.
  Tiling(std::vector<int64_t> sides, std::vector<int64_t> parts, int64_t unit);
  /// The parts along each of so many axes that `asked` counts: a single number is that of the rows.
  static std::vector<int64_t> parts_of(std::vector<int64_t> asked, std::size_t axes);
  /// Why images of `sides` cannot be cut so; "" if they can. `asked` says where the parts were asked for; "": by the
  /// configuration.
  static std::string refusal(const std::vector<int64_t>& sides, const std::vector<int64_t>& parts, int64_t unit,
                             std::string asked = "");

  /// Number of tiles of an image. They are counted along the last axis first.
  [[nodiscard]] int64_t count() const;
  [[nodiscard]] std::size_t axes() const { return sides_.size(); }
  [[nodiscard]] int64_t side(std::size_t axis) const { return sides_[axis]; }
  [[nodiscard]] int64_t parts(std::size_t axis) const { return parts_[axis]; }
  /// Which part of an axis is a tile's.
  [[nodiscard]] int64_t coordinate(int64_t tile, std::size_t axis) const;
  /// The tile whose coordinate along one axis differs from that of `tile` by `step`, beyond the last one from the first
  /// one on; the others are equal.
  [[nodiscard]] int64_t beside(int64_t tile, std::size_t axis, int64_t step) const;
  /// A tile that has neighbours on both sides of every axis which is cut into three parts or more.
  [[nodiscard]] int64_t inner() const;
  /// A tile's pixels along an axis.
  [[nodiscard]] Range pixels(int64_t tile, std::size_t axis) const;
  /// A tile's pixels along all axes; none where there is one tile.
  [[nodiscard]] std::vector<Range> cut_pixels(int64_t tile) const;

 private:
  [[nodiscard]] int64_t stride(std::size_t axis) const;

  std::vector<int64_t> sides_;
  std::vector<int64_t> parts_;
  int64_t unit_ = 1;
};

}  // namespace ddpm::layout
