// The kernels' exponential, against the C library's in float64.
#include "nn/ops/cpu/lanes.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace ddpm::nn::cpu {
namespace {

float exp2_of(float x) { return exp2<4>(Floats<4>{x, x, x, x})[2]; }

TEST(Exp2, ErrsByLessThan2e7) {
  double worst = 0.0;
  for (int i = 0; i < 2'000'000; ++i) {
    const auto x = static_cast<float>(-126.0 + 253.0 * i / 2e6);
    worst = std::max(worst, std::abs(static_cast<double>(exp2_of(x)) / std::exp2(static_cast<double>(x)) - 1.0));
  }
  EXPECT_LT(worst, 2e-7);
}

TEST(Exp2, IsExactForIntegers) {
  for (int n = -126; n <= 127; ++n) EXPECT_EQ(exp2_of(static_cast<float>(n)), std::ldexp(1.0F, n)) << n;
}

TEST(Exp2, IsZeroFarBelowAndInfiniteAt128) {
  for (const float x : {-127.0F, -150.0F, -1e30F, -std::numeric_limits<float>::infinity()}) EXPECT_EQ(exp2_of(x), 0.0F);
  EXPECT_EQ(exp2_of(128.0F), std::numeric_limits<float>::infinity());
}

TEST(Exp2, KeepsNaNsWhateverTheirBits) {
  for (const uint32_t bits : {0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0x7FFFFFFFU}) {
    EXPECT_TRUE(std::isnan(exp2_of(std::bit_cast<float>(bits)))) << bits;
  }
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  const auto rounded = [](uint32_t bits) {
    BFloat16 to[4];
    const float x = std::bit_cast<float>(bits);
    store<4>(to, Floats<4>{x, x, x, x});
    return to[1].bits;
  };
  EXPECT_EQ(rounded(0x3F808000U), 0x3F80);
  EXPECT_EQ(rounded(0x3F808001U), 0x3F81);
  EXPECT_EQ(rounded(0x3F818000U), 0x3F82);
  EXPECT_EQ(rounded(0x7F7FFFFFU), 0x7F80);  // beyond the largest: infinite
  EXPECT_EQ(rounded(0x7F800000U), 0x7F80);
  EXPECT_EQ(rounded(0xFFFFFFFFU) & 0x7FC0, 0x7FC0);
}

}  // namespace
}  // namespace ddpm::nn::cpu
