#include "doctor/number_ranges.h"

#include <gtest/gtest.h>

namespace ddpm::doctor {
namespace {

using Numbers = std::vector<int>;

TEST(NumberRanges, AreWrittenAsTheKernelWritesThem) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({5}), "5");
  EXPECT_EQ(ranges_text({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(ranges_text({0, 2, 4, 5}), "0,2,4-5");
}

TEST(NumberRanges, AreReadBack) {
  for (const Numbers& numbers : {Numbers{}, Numbers{7}, Numbers{0, 1, 2, 3, 8}, Numbers{1, 3, 64, 65}}) {
    EXPECT_EQ(parse_ranges(ranges_text(numbers) + "\n"), numbers);
  }
}

TEST(NumberRanges, WhatCannotBeReadIsLeftOut) {
  EXPECT_EQ(parse_ranges("0-1,x"), (Numbers{0, 1}));
  EXPECT_EQ(parse_ranges("none"), Numbers{});
  EXPECT_EQ(parse_ranges("3-1"), Numbers{});
  EXPECT_LT(parse_ranges("0-2000000000").size(), 100000U);  // a damaged file does not fill the memory
}

TEST(HostNames, ThatDifferInANumberAreOneEntry) {
  EXPECT_EQ(hosts_text({"node01", "node02", "node03", "node07"}), "node[01-03,07]");
  EXPECT_EQ(hosts_text({"node2", "node1", "node2"}), "node[1-2]");
  EXPECT_EQ(hosts_text({"login"}), "login");
  EXPECT_EQ(hosts_text({"login", "login"}), "login");
  EXPECT_EQ(hosts_text({"gpu-9", "gpu-10"}), "gpu-9,gpu-10");  // of different width: gpu-[9-10] would mean gpu-09 too
  EXPECT_EQ(hosts_text({"r1n2.site3", "r1n3.site3", "r2n2.site3"}), "r1n[2-3].site3,r2n2.site3");
  EXPECT_EQ(hosts_text({"x99999999999"}), "x99999999999");  // not an int
}

}  // namespace
}  // namespace ddpm::doctor
