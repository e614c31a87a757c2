#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "generate/draws.h"
#include "generate/periodic_lattice.h"

namespace ddpm::generate {
namespace {

using Sites = std::vector<uint32_t>;

Sites neighbours(const PeriodicLattice& lattice, uint32_t site) {
  const auto found = lattice.neighbours(site);
  Sites sorted(found.begin(), found.end());
  std::ranges::sort(sorted);
  return sorted;
}

TEST(PeriodicLattice, HasTheNeighboursOfItsGridAroundTheBorders) {
  const PeriodicLattice flat({3, 4});
  EXPECT_EQ(neighbours(flat, 0), (Sites{1, 3, 4, 8}));
  EXPECT_EQ(neighbours(flat, 6), (Sites{2, 5, 7, 10}));
  const PeriodicLattice volume({3, 4, 5});
  EXPECT_EQ(neighbours(volume, 59), (Sites{19, 39, 44, 54, 55, 58}));
}

TEST(TurnCluster, TurnsEachSiteOnceThatBondsReach) {
  const PeriodicLattice lattice({8, 8});
  std::vector<int> turned(lattice.sites());
  Draws draws(1, 2);
  std::vector<uint32_t> stack;
  const auto flip = [&](uint32_t site) { ++turned[site]; };
  // Only bonds within a row join: a cluster is a row.
  const auto joins = [&](uint32_t site, uint32_t to) { return site / 8 == to / 8 && turned[to] == 0; };
  EXPECT_EQ(turn_cluster(lattice, draws, stack, joins, flip), 8U);
  EXPECT_EQ(std::ranges::count(turned, 1), 8);
  EXPECT_EQ(std::ranges::count(turned, 0), 56);
}

TEST(Draws, AreTheWordsOfTheSampleInTheirOrder) {
  Draws draws(7, 9);
  const base::RandomSequence words(7, kChainStream, 0, 9);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(draws.word(), words.bits(i));
  EXPECT_EQ(Draws(7, 9).below(1000), words.below(1000));
  EXPECT_EQ(Draws(7, 9).uniform(), words.uniform());
  EXPECT_NE(Draws(7, 10).word(), Draws(7, 9).word());
  EXPECT_NE(Draws(8, 9).word(), Draws(7, 9).word());
}

}  // namespace
}  // namespace ddpm::generate
