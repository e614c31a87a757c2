#include "data/plain_text.h"

#include <string>

#include <gtest/gtest.h>

#include "data/field.h"

namespace ddpm::data {
namespace {

TEST(PlainText, IsUtf8WithoutControlCharacters) {
  for (const std::string text : {"", "kg m-2", "\302\260C", "z level=500"}) EXPECT_TRUE(is_plain(text)) << text;
  EXPECT_TRUE(is_plain(std::string(kMaxNameBytes, 'a')));
  for (const std::string text : {"kg\n", "\x1B[1m", "\260C", "a\x7F", "\xC2\x9B"}) EXPECT_FALSE(is_plain(text)) << text;
  EXPECT_FALSE(is_plain(std::string("a\0b", 3)));
  EXPECT_FALSE(is_plain(std::string(kMaxNameBytes + 1, 'a')));
}

TEST(PlainText, UnitsOfOthersBecomeSuchTexts) {
  EXPECT_EQ(plain_unit("kg m-2\n"), "kg m-2");
  EXPECT_EQ(plain_unit("\260C"), "\302\260C");
  EXPECT_EQ(plain_unit("\302\260C"), "\302\260C");
  EXPECT_EQ(plain_unit("a\tb \x1B"), "a b");
  EXPECT_EQ(plain_unit(std::string("K\0", 2)), "K");
  EXPECT_EQ(plain_unit("\n"), "");
  const std::string degrees = plain_unit(std::string(300, '\xB0'));
  EXPECT_EQ(degrees.size(), kMaxNameBytes - 1);  // no character is cut
  EXPECT_TRUE(is_plain(degrees));
}

}  // namespace
}  // namespace ddpm::data
