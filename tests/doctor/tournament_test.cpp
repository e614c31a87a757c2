#include "doctor/tournament.h"

#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace ddpm::doctor {
namespace {

TEST(Tournament, EveryPairMeetsOnceAndNobodyPlaysTwiceInARound) {
  for (const int players : {2, 3, 4, 5, 8, 17, 33, 64, 1001}) {
    EXPECT_EQ(tournament_rounds(players), players % 2 == 0 ? players - 1 : players);
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < tournament_rounds(players); ++round) {
      int resting = 0;
      for (int player = 0; player < players; ++player) {
        const int other = opponent(players, round, player);
        if (other < 0) {
          ++resting;
          continue;
        }
        ASSERT_NE(other, player);
        ASSERT_EQ(opponent(players, round, other), player) << players << " players, round " << round;
        if (player < other) {
          ASSERT_TRUE(met.emplace(player, other).second) << player << " and " << other << " met before";
        }
      }
      ASSERT_EQ(resting, players % 2);
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(players) * static_cast<std::size_t>(players - 1) / 2);
  }
}

TEST(Tournament, OneAloneHasNoRounds) { EXPECT_EQ(tournament_rounds(1), 0); }

}  // namespace
}  // namespace ddpm::doctor
