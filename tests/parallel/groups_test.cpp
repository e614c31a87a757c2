#include "parallel/groups.h"

#include <gtest/gtest.h>

#include "layout/parallelism.h"
#include "support/fake_communicator.h"

namespace ddpm::parallel {
namespace {

using test::Operation;

constexpr int kRanks = 4;
constexpr int kRank = 1;

/// The groups of rank 1 of 4 with shard groups of `shard`, made of a communicator that counts.
struct Made {
  explicit Made(int64_t shard)
      : world(kRank, kRanks, counts,
              [shard](int color, int key) {
                const auto size = static_cast<int>(color == kRank / shard ? shard : kRanks / shard);
                return test::FakeCommunicator::Place{key, size};
              }),
        groups(world, layout::Parallelism{.zero_stage = 1, .dp_shard_size = shard}.mesh(kRanks)) {}

  [[nodiscard]] int64_t splits() const { return counts[Operation::split].calls; }
  [[nodiscard]] int64_t duplicates() const { return counts[Operation::duplicate].calls; }

  test::TrafficCounts counts;
  test::FakeCommunicator world;
  GradientGroups groups;
};

TEST(GradientGroups, WhereNothingIsSharedOneCommunicatorIsMade) {
  const Made made(1);
  EXPECT_EQ(made.duplicates(), 1);
  EXPECT_EQ(made.splits(), 0);
  EXPECT_EQ(&made.groups.replicate(), &made.groups.all());
  EXPECT_EQ(made.groups.shard().size(), 1);
}

TEST(GradientGroups, WhereAllShareOneCopyOneCommunicatorIsMade) {
  const Made made(kRanks);
  EXPECT_EQ(made.duplicates(), 1);
  EXPECT_EQ(made.splits(), 0);
  EXPECT_EQ(&made.groups.shard(), &made.groups.all());
  EXPECT_EQ(made.groups.replicate().size(), 1);
}

TEST(GradientGroups, GroupsThatAreNeitherOneRankNorAllHaveTheirOwn) {
  const Made made(2);
  EXPECT_EQ(made.duplicates(), 1);
  EXPECT_EQ(made.splits(), 2);
  EXPECT_EQ(made.groups.shard().size(), 2);
  EXPECT_EQ(made.groups.replicate().size(), 2);
  EXPECT_NE(&made.groups.shard(), &made.groups.replicate());
}

}  // namespace
}  // namespace ddpm::parallel
