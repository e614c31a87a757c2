// Vectors: RFC 4648, section 10.
#include "base/base64.h"

#include <cstring>
#include <utility>

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

std::vector<std::byte> owned_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Base64, KnownAnswersAndBack) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {std::string_view("\0\xff\xfe", 3), "AP/+"}};
  for (const auto& [plain, text] : cases) {
    EXPECT_EQ(to_base64(owned_bytes(plain)), text);
    EXPECT_EQ(from_base64(text), owned_bytes(plain)) << text;
  }
}

TEST(Base64, TakesNothingThatItWouldNotWrite) {
  for (const std::string_view text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", " Zg==", "Zg==\n", "Zm9 ",
                                      "Zm9v    ", "Zm-_", "Zm9\xc3", "=m9v", "Z=9v"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
  EXPECT_EQ(from_base64(std::string_view("Zm9\0", 4)), std::nullopt);
}

}  // namespace
}  // namespace ddpm::base
