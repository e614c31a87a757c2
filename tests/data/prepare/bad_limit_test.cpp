#include "data/prepare/bad_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(BadLimit, IsANumberOrAShareOfAll) {
  EXPECT_EQ(BadLimit().of(1000), 1000);
  EXPECT_EQ(BadLimit("0").of(1000), 0);
  EXPECT_EQ(BadLimit("12").of(1000), 12);
  EXPECT_EQ(BadLimit("12").of(5), 5);
  EXPECT_EQ(BadLimit("0.5%").of(1000), 5);
  EXPECT_EQ(BadLimit("0.5%").of(199), 0);
  EXPECT_EQ(BadLimit("100%").of(7), 7);
}

TEST(BadLimit, OtherTextsAreUsageErrors) {
  for (const char* text : {"", "%", "-1", "1.5", "101%", "-1%", "nan%", "5 %", "few", "1e3"}) {
    EXPECT_THAT([&] { BadLimit limit(text); }, ThrowsMessage<base::ConfigError>(HasSubstr("--max-bad"))) << text;
  }
  EXPECT_EQ(percentage("--share", "2.5%"), 2.5);
  for (const char* text : {"", "5", "0.05", "101%", "inf%"}) {
    EXPECT_THAT([&] { (void)percentage("--share", text); }, ThrowsMessage<base::ConfigError>(HasSubstr("--share")))
        << text;
  }
}

TEST(BadLimit, SaysHowManyWereAllowedAndNamesOne) {
  EXPECT_NO_THROW(BadLimit("1%").check(20, 2000, ""));
  EXPECT_THAT([] { BadLimit("1%").check(21, 2000, "a.png: the file is empty"); },
              ThrowsMessage<base::DatasetError>(
                  "--max-bad 1%: more than 20 of 2,000 pictures cannot be used; one is a.png: the file is empty"));
}

}  // namespace
}  // namespace ddpm::data::prepare
