#include "layout/shard_layout.h"

#include <algorithm>

#include "base/round_up.h"

namespace ddpm::layout {

int64_t bucket_elements(double bucket_mib) {
  return static_cast<int64_t>(bucket_mib * 1024.0 * 1024.0 / sizeof(float));
}

ShardLayout ShardLayout::by_size(int64_t elements, int64_t segment_elements, int64_t parts) {
  ShardLayout layout;
  layout.parts_ = parts;
  const int64_t unit = parts * kShardBlock;
  const int64_t segment = std::max(segment_elements / unit, int64_t{1}) * unit;
  for (int64_t end = base::round_up(elements, unit); end > 0; end -= segment) {
    layout.segments_.push_back({std::max<int64_t>(end - segment, 0), end});
  }
  std::reverse(layout.segments_.begin(), layout.segments_.end());
  return layout;
}

ShardLayout ShardLayout::by_unit(std::span<const int64_t> unit_elements, int64_t parts) {
  ShardLayout layout;
  layout.parts_ = parts;
  int64_t begin = 0;
  for (const int64_t elements : unit_elements) {
    const int64_t end = begin + base::round_up(elements, parts * kFlatAlignment);
    layout.segments_.push_back({begin, end});
    begin = end;
  }
  return layout;
}

Range ShardLayout::part(std::size_t segment, int64_t part) const {
  const Range whole = segments_[segment];
  const int64_t size = whole.size() / parts_;
  return {whole.begin + part * size, whole.begin + (part + 1) * size};
}

}  // namespace ddpm::layout
