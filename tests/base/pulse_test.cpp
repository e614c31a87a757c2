#include "base/pulse.h"

#include <thread>

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(Pulse, CountsWhatItsThreadGetsDone) {
  pulse();  // nobody counts yet
  const Pulse mine;
  EXPECT_EQ(mine.count(), 0);
  pulse();
  pulse();
  EXPECT_EQ(mine.count(), 2);
  std::thread([] { pulse(); }).join();  // another thread's work is not this one's
  EXPECT_EQ(mine.count(), 2);
}

TEST(Pulse, TheNewestOfAThreadCounts) {
  const Pulse older;
  {
    const Pulse newer;
    pulse();
    EXPECT_EQ(newer.count(), 1);
  }
  pulse();
  EXPECT_EQ(older.count(), 0);
}

TEST(Pulse, SaysWhetherItsThreadWaits) {
  const Pulse mine;
  {
    const Waiting outer;
    EXPECT_TRUE(mine.waiting());
    { const Waiting inner; }
    EXPECT_TRUE(mine.waiting());  // the outer one still lives
    std::thread([] { const Waiting elsewhere; }).join();
    EXPECT_TRUE(mine.waiting());
  }
  EXPECT_FALSE(mine.waiting());
  EXPECT_EQ(mine.count(), 0);
}

}  // namespace
}  // namespace ddpm::base
