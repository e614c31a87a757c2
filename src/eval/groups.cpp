#include "eval/groups.h"

#include <algorithm>

#include "base/random.h"

namespace ddpm::eval {

std::vector<std::vector<int64_t>> random_groups(int64_t rows) {
  const auto count = static_cast<std::size_t>(std::min(kJackknifeGroups, rows));
  const base::Permutation order(/*seed=*/0, base::Stream::evaluation_groups, 0, 0, static_cast<uint64_t>(rows));
  std::vector<std::vector<int64_t>> members(count);
  for (int64_t i = 0; i < rows; ++i) members[order(static_cast<uint64_t>(i)) % count].push_back(i);
  return members;
}

}  // namespace ddpm::eval
