// How a flat buffer is cut into segments, which are communicated one at a time, and each segment into equal parts, one
// per rank of a shard group. Pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "layout/range.h"

namespace ddpm::layout {

/// Segments cut by size have their parts on multiples of this many elements of the flat buffer, whatever the number of
/// ranks: sums over blocks of it (the gradient norm) see the same borders on any number of ranks.
inline constexpr int64_t kShardBlock = 4096;
/// Elements to which everything in a flat buffer is aligned: 16 floats are 64 bytes.
inline constexpr int64_t kFlatAlignment = 16;

/// Elements of a segment that float32 gradients of `bucket_mib` MiB fill (parallel.bucket_mib).
int64_t bucket_elements(double bucket_mib);

class ShardLayout {
 public:
  ShardLayout() = default;  ///< a layout without elements
  /// Segments of about `segment_elements`, cut from the end of [0, `elements`), where backward begins.
  static ShardLayout by_size(int64_t elements, int64_t segment_elements, int64_t parts);
  /// One segment per unit of `unit_elements`, each padded to whole aligned parts. A unit without elements has an empty
  /// segment.
  static ShardLayout by_unit(std::span<const int64_t> unit_elements, int64_t parts);

  /// Elements of the flat buffer with padding.
  [[nodiscard]] int64_t size() const { return segments_.empty() ? 0 : segments_.back().end; }
  [[nodiscard]] int64_t parts() const { return parts_; }
  /// In the order of the flat buffer, without gaps; backward completes the last one first.
  [[nodiscard]] const std::vector<Range>& segments() const { return segments_; }
  /// Elements of the flat buffer in part `part` of a segment.
  [[nodiscard]] Range part(std::size_t segment, int64_t part) const;
  /// Elements that one rank holds of all segments: size() / parts().
  [[nodiscard]] int64_t shard_size() const { return size() / parts_; }
  /// Where a segment's part begins in a rank's own buffer of shard_size() elements.
  [[nodiscard]] int64_t shard_offset(std::size_t segment) const { return segments_[segment].begin / parts_; }

 private:
  int64_t parts_ = 1;
  std::vector<Range> segments_;
};

}  // namespace ddpm::layout
