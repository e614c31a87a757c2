#include "base/utf8.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

TEST(Utf8, CharactersHaveTheSizesOfRfc3629) {
  EXPECT_EQ(utf8_size("a"), 1U);
  EXPECT_EQ(utf8_size("\xC2\xB0"), 2U);           // a degree sign
  EXPECT_EQ(utf8_size("\xE2\x82\xAC rest"), 3U);  // a euro sign
  EXPECT_EQ(utf8_size("\xF0\x9F\x8C\x8A"), 4U);   // a wave
}

TEST(Utf8, WhatIsNoCharacterHasNone) {
  for (const std::string text : {"", "\xB0", "\xC2", "\xC2 ", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                                 "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xFF", "\xE2\x82"}) {
    EXPECT_EQ(utf8_size(text), 0U) << text;
  }
}

TEST(Utf8, OtherTextIsRefused) {
  for (const std::string text : {"", "a", "/runs/\xC3\xBC/step-2"}) EXPECT_NO_THROW(expect_utf8(text, "this"));
  for (const std::string text : {"\xFC", "/runs/\xFC/step-2", "a\xC3"}) {
    EXPECT_THROW(expect_utf8(text, "this"), ConfigError) << text;
  }
}

TEST(Utf8, ControlCharacters) {
  for (const std::string text : {"\n", "\x1B[1m", "\x7F", "\xC2\x9B"}) EXPECT_TRUE(begins_with_control(text));
  for (const std::string text : {"", " ", "\xC2\xA0", "\xC2", "\302a"}) EXPECT_FALSE(begins_with_control(text));
}

}  // namespace
}  // namespace ddpm::base
