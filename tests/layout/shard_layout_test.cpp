#include "layout/shard_layout.h"

#include <array>

#include <gtest/gtest.h>

namespace ddpm::layout {
namespace {

/// Every element of the flat buffer has one owner, and the owner's buffer has no gap.
void expect_exact_cover(const ShardLayout& layout) {
  int64_t next = 0;
  int64_t local = 0;
  for (std::size_t s = 0; s < layout.segments().size(); ++s) {
    EXPECT_EQ(layout.segments()[s].begin, next);
    EXPECT_EQ(layout.shard_offset(s), local);
    for (int64_t part = 0; part < layout.parts(); ++part) {
      EXPECT_EQ(layout.part(s, part).begin, next);
      EXPECT_EQ(layout.part(s, part).begin % kFlatAlignment, 0);
      next = layout.part(s, part).end;
    }
    local += layout.part(s, 0).size();
  }
  EXPECT_EQ(next, layout.size());
  EXPECT_EQ(local, layout.shard_size());
}

TEST(ShardLayout, BySizeCoversExactlyAtAnyNumberOfParts) {
  for (const int64_t elements : {1, 4096, 4097, 1'000'003}) {
    for (const int64_t parts : {1, 2, 3, 7, 64}) {
      const ShardLayout layout = ShardLayout::by_size(elements, 100'000, parts);
      expect_exact_cover(layout);
      EXPECT_GE(layout.size(), elements);
      EXPECT_LT(layout.size() - elements, parts * kShardBlock);
    }
  }
}

TEST(ShardLayout, PartsBySizeLieOnBlocksThatNoNumberOfPartsMoves) {
  for (const int64_t parts : {1, 2, 3, 8}) {
    const ShardLayout layout = ShardLayout::by_size(500'000, 60'000, parts);
    for (std::size_t s = 0; s < layout.segments().size(); ++s) {
      for (int64_t part = 0; part < parts; ++part) EXPECT_EQ(layout.part(s, part).begin % kShardBlock, 0);
    }
  }
}

TEST(ShardLayout, TheLastSegmentIsFullBecauseBackwardBeginsThere) {
  const ShardLayout layout = ShardLayout::by_size(10 * kShardBlock, 4 * kShardBlock, 2);
  ASSERT_EQ(layout.segments().size(), 3U);
  EXPECT_EQ(layout.segments()[0].size(), 2 * kShardBlock);
  EXPECT_EQ(layout.segments()[2].size(), 4 * kShardBlock);
}

TEST(ShardLayout, ByUnitPadsEachUnit) {
  const std::array<int64_t, 4> units{100, 0, 48, 1};
  const ShardLayout layout = ShardLayout::by_unit(units, 3);
  expect_exact_cover(layout);
  ASSERT_EQ(layout.segments().size(), 4U);
  EXPECT_EQ(layout.segments()[0], (Range{0, 144}));
  EXPECT_TRUE(layout.segments()[1].empty());
  EXPECT_EQ(layout.segments()[2].size(), 48);
  EXPECT_EQ(layout.segments()[3].size(), 48);
}

}  // namespace
}  // namespace ddpm::layout
