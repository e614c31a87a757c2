#include "base/parse_number.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(ParseNumber, IsAllOfTheText) {
  EXPECT_EQ(parse_number<int64_t>("-12"), -12);
  EXPECT_EQ(parse_number<std::size_t>("0"), 0U);
  EXPECT_EQ(parse_number<double>("2.5e3"), 2500.0);
  for (const char* text : {"", " 4", "4 ", "4x", "+4", "4.0", "0x4", "-", "four"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<double>("2.5%"), std::nullopt);
}

TEST(ParseNumber, IsOneThatTheTypeHolds) {
  EXPECT_EQ(parse_number<int8_t>("127"), 127);
  EXPECT_EQ(parse_number<int8_t>("128"), std::nullopt);
  EXPECT_EQ(parse_number<uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
}

}  // namespace
}  // namespace ddpm::base
