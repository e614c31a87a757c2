#include "base/counted.h"

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(Counted, OneOfAKindIsSingular) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(std::size_t{2}, "class"), "2 classes");
  EXPECT_EQ(counted(3, "batch"), "3 batches");
}

TEST(Counted, ManyAreGrouped) {
  EXPECT_EQ(counted(1234567, "image"), "1,234,567 images");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(999), "999");
}

TEST(Counted, ARangeOfNoneOrOneSaysSo) {
  EXPECT_EQ(inclusive_range(61, 60, "step"), "no step");
  EXPECT_EQ(inclusive_range(60, 60, "step"), "step 60");
  EXPECT_EQ(inclusive_range(3, 6, "step"), "steps 3 to 6");
}

}  // namespace
}  // namespace ddpm::base
