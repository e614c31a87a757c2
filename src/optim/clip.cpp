#include "optim/clip.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "optim/flat_kernels.h"

namespace ddpm::optim {

void block_sums_of_squares(std::span<const float> values, std::span<double> sums) {
  DDPM_CHECK(static_cast<int64_t>(sums.size()) == norm_blocks(static_cast<int64_t>(values.size())),
             "{} sums of blocks of {} values", sums.size(), values.size());
  for (double& sum : sums) {
    const auto block = values.first(std::min(values.size(), static_cast<std::size_t>(kNormBlock)));
    sum = squares_kernel(block.size(), block.data());
    values = values.subspan(block.size());
  }
}

double tree_sum(std::span<const double> values) {
  if (values.empty()) return 0.0;
  std::vector<double> level(values.begin(), values.end());
  while (level.size() > 1) {
    const std::size_t pairs = level.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    if (level.size() % 2 == 1) level[pairs] = level.back();
    level.resize((level.size() + 1) / 2);
  }
  return level.front();
}

double sum_of_squares(std::span<const float> values) {
  std::vector<double> sums(static_cast<std::size_t>(norm_blocks(static_cast<int64_t>(values.size()))));
  block_sums_of_squares(values, sums);
  return tree_sum(sums);
}

}  // namespace ddpm::optim
