// Hosts that reach each other are accepted; tests/slurm/blocked_pair_test.py has hosts that do not.
#include "comm/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpm::comm {
namespace {

TEST(Reach, LetsHostsThatReachEachOtherThroughAsOftenAsTheyAsk) {
  for (int i = 0; i < 3; ++i) expect_reach(30.0);
}

TEST(Reach, NamesTheFirstPairsAndCountsTheOthers) {
  const std::vector<std::string> hosts{"a", "b", "c", "d"};
  EXPECT_EQ(unreached_text({{1, 2}}, hosts), "no message arrives between b and c");
  EXPECT_EQ(unreached_text({{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}, hosts),
            "no message arrives between a and b, a and c, a and d, b and c, and 2 more pairs of hosts");
}

}  // namespace
}  // namespace ddpm::comm
