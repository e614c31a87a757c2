// Needs two CPUs; tests/train/CMakeLists.txt leaves it out where there is one.
#include <array>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "device/affinity.h"
#include "device/threads.h"

namespace ddpm::device {
namespace {

TEST(PinnedThreads, HaveACpuEachButForTheCallingOne) {
  const std::vector<int> all = affinity_cpus();
  ASSERT_GE(all.size(), 2U);
  const std::vector<int> two{all[0], all[1]};
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  pin_threads(two);
  std::array<std::vector<int>, 2> found;
  at::parallel_for(
      0, 2, 1, [&](int64_t begin, int64_t /*end*/) { found.at(static_cast<std::size_t>(begin)) = affinity_cpus(); });
  at::set_num_threads(before);
  EXPECT_EQ(found[0], all);
  EXPECT_EQ(found[1], std::vector<int>{two[1]});
}

}  // namespace
}  // namespace ddpm::device
