#include "device/threads.h"

#include <map>

#include <gtest/gtest.h>

namespace ddpm::device {
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
  EXPECT_FALSE(are_its_own({0, 1}, {{0, 1}}, 2));  // no rank was bound
}

}  // namespace
}  // namespace ddpm::device
