#include "plan/arrangement.h"

#include <algorithm>
#include <numeric>

namespace ddpm::plan {

int64_t Arrangement::shard_size() const {
  const std::vector<layout::Degree> degrees = parallelism.degrees(ranks());
  return std::max<int64_t>(1, std::ranges::find(degrees, layout::Axis::shard, &layout::Degree::axis)->ranks);
}

int64_t ModelSizes::elements() const { return std::accumulate(unit_elements.begin(), unit_elements.end(), int64_t{0}); }

}  // namespace ddpm::plan
