#include "generate/character_ranges.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::generate {
namespace {

using testing::ElementsAre;

TEST(CharacterRanges, ListsAndRangesAreSortedAndCountOnce) {
  EXPECT_THAT(code_points_of("cA-Ba"), ElementsAre('A', 'B', 'a', 'c'));
  EXPECT_THAT(code_points_of("a-cb-d"), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(code_points_of("aa"), ElementsAre('a'));
}

TEST(CharacterRanges, HyphensAtTheEndsMeanThemselves) {
  EXPECT_THAT(code_points_of("-"), ElementsAre('-'));
  EXPECT_THAT(code_points_of("-a"), ElementsAre('-', 'a'));
  EXPECT_THAT(code_points_of("a-"), ElementsAre('-', 'a'));
}

TEST(CharacterRanges, CharactersHaveOneToFourBytes) {
  EXPECT_THAT(code_points_of("\u00e4\u20ac\U0001f600"), ElementsAre(0xE4, 0x20AC, 0x1F600));
  EXPECT_THAT(code_points_of("\u03b1-\u03b3"), ElementsAre(0x3B1, 0x3B2, 0x3B3));
}

TEST(CharacterRanges, WhatIsNoTextIsRefused) {
  for (const char* text :
       {"", "z-a", "\x80", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80", "\xc3(", "\xff"}) {
    EXPECT_THROW(code_points_of(text), base::ConfigError) << text;
  }
}

}  // namespace
}  // namespace ddpm::generate
