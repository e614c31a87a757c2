#include "denoise/recorded_mask.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::denoise {
namespace {

TEST(RecordedMask, IsReadBackAsItWas) {
  RecordedMask mask{.sides = {3, 7}, .valid = std::vector<bool>(21, true)};
  for (const std::size_t pixel : {0U, 8U, 9U, 20U}) mask.valid[pixel] = false;
  EXPECT_EQ(RecordedMask::parse(mask.to_json(), "here"), mask);
  EXPECT_FALSE(mask.empty());
  EXPECT_TRUE(RecordedMask{}.empty());
}

TEST(RecordedMask, WhatIsNoMaskOfItsSidesIsRefused) {
  const base::Json good = RecordedMask{.sides = {3, 7}, .valid = std::vector<bool>(21, true)}.to_json();
  const auto refused = [&](const char* key, const base::Json& value) {
    base::Json bad = good;
    bad[key] = value;
    EXPECT_THROW(static_cast<void>(RecordedMask::parse(bad, "here")), base::OutputError) << key << " = " << value;
  };
  for (const base::Json& sides : {base::Json({3, 8, 4}), base::Json({21}), base::Json({0, 7}), base::Json({3, 1 << 17}),
                                  base::Json({1, 1, 3, 7}), base::Json("3x7")}) {
    refused("sides", sides);
  }
  for (const char* bits : {"", "AAA", "AAAAAA==", "????"}) refused("bits", bits);
  base::Json without = good;
  without.erase("bits");
  EXPECT_THROW(static_cast<void>(RecordedMask::parse(without, "here")), base::OutputError);
}

}  // namespace
}  // namespace ddpm::denoise
