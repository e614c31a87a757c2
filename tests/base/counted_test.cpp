#include "base/counted.h"

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(Counted, OneThingIsOneAndManyAreGrouped) {
  EXPECT_EQ(counted(1, "image"), "1 image");
  EXPECT_EQ(counted(0, "image"), "0 images");
  EXPECT_EQ(counted(1234567, "image"), "1,234,567 images");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(999), "999");
}

}  // namespace
}  // namespace ddpm::base
