#include "train/threads.h"

#include <array>
#include <map>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "base/affinity.h"

namespace ddpm::train {
namespace {

comm::Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(ThreadsPerRank, TakesWhatWasAskedFor) { EXPECT_EQ(threads_per_rank(3, 8, 8, 4, environment({})), 3); }

TEST(ThreadsPerRank, TakesTheAffinityMaskOfABoundRank) { EXPECT_EQ(threads_per_rank(0, 2, 8, 4, environment({})), 2); }

TEST(ThreadsPerRank, SharesTheHostBetweenRanksThatAreNotBound) {
  EXPECT_EQ(threads_per_rank(0, 8, 8, 4, environment({})), 2);
  EXPECT_EQ(threads_per_rank(0, 2, 2, 4, environment({})), 1);
}

TEST(ThreadsPerRank, IsLimitedBySlurmBeforeOpenMp) {
  EXPECT_EQ(threads_per_rank(0, 8, 8, 1, environment({{"SLURM_CPUS_PER_TASK", "4"}, {"OMP_NUM_THREADS", "2"}})), 4);
  EXPECT_EQ(threads_per_rank(0, 8, 8, 1, environment({{"OMP_NUM_THREADS", "2"}})), 2);
  EXPECT_EQ(threads_per_rank(0, 1, 8, 1, environment({{"OMP_NUM_THREADS", "2"}})), 1);
}

TEST(ThreadsPerRank, IgnoresWhatIsNoNumber) {
  EXPECT_EQ(threads_per_rank(0, 8, 8, 1, environment({{"OMP_NUM_THREADS", "many"}})), 8);
}

TEST(PinnedThreads, AreOnCpusThatTheLauncherGaveToOneRankAlone) {
  EXPECT_TRUE(are_its_own({0, 1}, {{0, 1}, {2, 3}}, 8));
  EXPECT_TRUE(are_its_own({0, 1}, {{0, 1}}, 8));
  EXPECT_FALSE(are_its_own({0, 1}, {{0, 1}, {1, 2}}, 8));
  EXPECT_FALSE(are_its_own({0, 1}, {{0, 1}, {0, 1}}, 8));
  EXPECT_FALSE(are_its_own({0, 1}, {{0, 1}}, 2));  // nobody was bound
}

TEST(PinnedThreads, HaveACpuEachButForTheCallingOne) {
  const std::vector<int> all = base::affinity_cpus();
  if (all.size() < 2) GTEST_SKIP() << "one CPU";
  const std::vector<int> two{all[0], all[1]};
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  pin_threads(two);
  std::array<std::vector<int>, 2> found;
  at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t /*end*/) {
    found.at(static_cast<std::size_t>(begin)) = base::affinity_cpus();
  });
  at::set_num_threads(before);
  EXPECT_EQ(found[0], all);
  EXPECT_EQ(found[1], std::vector<int>{two[1]});
}

}  // namespace
}  // namespace ddpm::train
