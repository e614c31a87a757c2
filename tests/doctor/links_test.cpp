#include "doctor/links.h"

#include <gtest/gtest.h>

#include "support/mpi_test.h"

namespace ddpm::doctor {
namespace {

TEST(Links, EveryPairIsMeasuredOnceAndAllRanksKnow) {
  int64_t rounds = 0;
  const auto links = measure_links(test::world(), [&](int64_t round) { EXPECT_EQ(round, rounds++); });
  const int size = test::world().size();
  ASSERT_EQ(links.size(), static_cast<std::size_t>(size * (size - 1) / 2));
  std::size_t at = 0;
  for (int a = 0; a < size; ++a) {
    for (int b = a + 1; b < size; ++b, ++at) {
      EXPECT_EQ(links[at].a, a);
      EXPECT_EQ(links[at].b, b);
      EXPECT_GT(links[at].latency_s, 0.0);
      EXPECT_GT(links[at].bytes_per_second, 0.0);
    }
  }
}

TEST(Links, TheEndsAreTheFirstAndTheLastRank) {
  const Link link = measure_ends(test::world());
  const int last = test::world().size() - 1;
  const bool is_end = test::world().rank() == 0 || test::world().rank() == last;
  EXPECT_EQ(link.latency_s > 0.0, last > 0 && is_end);
}

}  // namespace
}  // namespace ddpm::doctor
