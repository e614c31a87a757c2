// Fused products computed in float64, and the kernels' logarithm, against the C library's.
#define DDPM_FUSE_IN_DOUBLE
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/random.h"
#include "nn/ops/cpu/lanes.h"

namespace ddpm::nn::cpu {
namespace {

float fused(float sum, float a, float b) {
  return fuse_in_double<4>(Floats<4>{sum, sum, sum, sum}, Floats<4>{a, a, a, a}, Floats<4>{b, b, b, b})[3];
}

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

TEST(FuseInDouble, RoundsAsTheInstructionDoesForAnyBits) {
  const base::RandomSequence random(3, base::Stream::noise, 0, 0);
  for (uint64_t i = 0; i < 400'000; ++i) {
    const auto any = [&](uint64_t k) { return std::bit_cast<float>(random.bits(3 * i + k)); };
    const float wanted = std::fma(any(1), any(2), any(0));
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(fused(any(0), any(1), any(2)))) << i;
    } else {
      ASSERT_EQ(bits(fused(any(0), any(1), any(2))), bits(wanted)) << i;
    }
  }
}

// Products that almost cancel the sum, and sums next to halfway between two floats: where two roundings show.
TEST(FuseInDouble, RoundsAsTheInstructionDoesWhereTwoRoundingsDiffer) {
  const base::RandomSequence random(4, base::Stream::noise, 0, 0);
  int two_roundings = 0;
  for (uint64_t i = 0; i < 400'000; ++i) {
    const float a = 1.0F + static_cast<float>(random.bits(3 * i) >> 9U) * 0x1p-23F;
    const float b = 1.0F + static_cast<float>(random.bits(3 * i + 1) >> 20U) * 0x1p-12F;
    const float sum = std::ldexp((random.bits(3 * i + 2) & 1U) != 0 ? a : -a, static_cast<int>(i % 61) - 30);
    const float wanted = std::fma(a, b, sum);
    ASSERT_EQ(bits(fused(sum, a, b)), bits(wanted)) << i;
    two_roundings += bits(static_cast<float>(double{a} * b + sum)) != bits(wanted) ? 1 : 0;
  }
  // 1 + 2^-24 lies halfway between two floats, and 2^-60 decides.
  for (const float sign : {1.0F, -1.0F}) {
    const float a = 1.0F + 0x1p-12F;
    const float sum = sign * 0x1p-60F;
    ASSERT_EQ(bits(fused(sum, a, a)), bits(std::fma(a, a, sum)));
    two_roundings += bits(static_cast<float>(double{a} * a + sum)) != bits(std::fma(a, a, sum)) ? 1 : 0;
  }
  EXPECT_GT(two_roundings, 0);
}

float log2_of(float x) { return log2<4>(Floats<4>{x, x, x, x})[1]; }

TEST(Log2, ErrsByLessThan2e7) {
  double worst = 0.0;
  for (uint32_t i = 0x00800000U; i < 0x7F800000U; i += 1009) {
    const auto x = std::bit_cast<float>(i);
    const double wanted = std::log2(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(log2_of(x)) - wanted) / std::max(1.0, std::abs(wanted)));
  }
  EXPECT_LT(worst, 2e-7);
}

TEST(Log2, IsExactForPowersOfTwoAndNeverNegativeFromOneOn) {
  for (int n = -126; n <= 127; ++n) EXPECT_EQ(log2_of(std::ldexp(1.0F, n)), static_cast<float>(n)) << n;
  for (uint32_t i = 0; i < 100'000; ++i) ASSERT_GE(log2_of(std::bit_cast<float>(0x3F800000U + i)), 0.0F) << i;
}

TEST(Log2, KeepsNaNs) { EXPECT_TRUE(std::isnan(log2_of(std::numeric_limits<float>::quiet_NaN()))); }

}  // namespace
}  // namespace ddpm::nn::cpu
