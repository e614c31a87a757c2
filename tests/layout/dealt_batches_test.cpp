#include "layout/dealt_batches.h"

#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace ddpm::layout {
namespace {

/// The batches that all ranks have in all rounds, as (begin, end).
std::multiset<std::pair<int64_t, int64_t>> dealt(const DealtBatches& batches) {
  std::multiset<std::pair<int64_t, int64_t>> all;
  for (int64_t round = 0; round < batches.rounds(); ++round) {
    for (int64_t rank = 0; rank < batches.ranks; ++rank) {
      const Range items = batches.items(round, rank);
      if (!items.empty()) all.emplace(items.begin, items.end);
    }
  }
  return all;
}

TEST(DealtBatches, TheSameBatchesOnAnyNumberOfRanks) {
  for (const int64_t count : {0, 1, 2, 7, 8, 9, 37}) {
    for (const int64_t size : {1, 2, 5, 8, 100}) {
      std::multiset<std::pair<int64_t, int64_t>> wanted;
      for (int64_t begin = 0; begin < count; begin += size) wanted.emplace(begin, std::min(begin + size, count));
      for (const int64_t ranks : {1, 2, 3, 4, 50}) {
        EXPECT_EQ(dealt({count, size, ranks}), wanted) << count << " in " << size << " on " << ranks;
      }
    }
  }
}

TEST(DealtBatches, RanksTakeTurns) {
  const DealtBatches batches{.count = 11, .batch_size = 2, .ranks = 4};
  EXPECT_EQ(batches.rounds(), 2);
  EXPECT_EQ(batches.items(0, 3), (Range{6, 8}));
  EXPECT_EQ(batches.items(1, 0), (Range{8, 10}));
  EXPECT_EQ(batches.items(1, 1), (Range{10, 11}));
  EXPECT_TRUE(batches.items(1, 2).empty());
  EXPECT_TRUE(batches.items(1, 3).empty());
}

TEST(DealtBatches, NoRoundWithoutWork) {
  for (int64_t count = 1; count <= 40; ++count) {
    const DealtBatches batches{.count = count, .batch_size = 3, .ranks = 4};
    EXPECT_FALSE(batches.items(batches.rounds() - 1, 0).empty()) << count;
  }
  EXPECT_EQ((DealtBatches{.count = 0, .batch_size = 3, .ranks = 4}).rounds(), 0);
}

}  // namespace
}  // namespace ddpm::layout
