// Conversions and reductions of 16-bit numbers, against LibTorch's Half and BFloat16.
#include "comm/half.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

namespace ddpm::comm {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

TEST(Half, EveryBinary16WidensAsLibTorchDoes) {
  for (uint32_t i = 0; i <= 0xffffU; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float expected = static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
    const float seen = float_from_f16(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(seen)) << i;
    } else {
      ASSERT_EQ(bits_of(seen), bits_of(expected)) << i;
    }
  }
}

TEST(Half, EveryBfloat16WidensAsLibTorchDoes) {
  for (uint32_t i = 0; i <= 0xffffU; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    ASSERT_EQ(bits_of(float_from_bf16(bits)),
              bits_of(static_cast<float>(c10::BFloat16(bits, c10::BFloat16::from_bits()))));
  }
}

/// Floats of every exponent and sign, with mantissas around the rounding borders of both formats.
std::vector<float> floats_of_every_exponent() {
  std::vector<float> values;
  for (uint32_t exponent = 0; exponent <= 0xff; ++exponent) {
    for (uint32_t mantissa = 0; mantissa < 0x800000U; mantissa += 0x0800U) {
      for (const uint32_t nudge : {0U, 1U, 0x7ffU}) {
        for (const uint32_t sign : {0U, 0x80000000U}) {
          values.push_back(std::bit_cast<float>(sign | (exponent << 23U) | (mantissa + nudge)));
        }
      }
    }
  }
  return values;
}

TEST(Half, FloatsNarrowAsLibTorchDoes) {
  for (const float value : floats_of_every_exponent()) {
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_from_f16(f16_from_float(value)))) << bits_of(value);
      EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(value)))) << bits_of(value);
      continue;
    }
    ASSERT_EQ(f16_from_float(value), c10::Half(value).x) << bits_of(value);
    ASSERT_EQ(bf16_from_float(value), c10::BFloat16(value).x) << bits_of(value);
  }
}

TEST(Half, SumsAreRoundedOnceToTheNearestEven) {
  // bfloat16 has 8 significant bits: 257 and 259 lie half-way between their neighbours.
  const std::array<uint16_t, 2> in = {bf16_from_float(1), bf16_from_float(1)};
  std::array<uint16_t, 2> out = {bf16_from_float(256), bf16_from_float(258)};
  reduce_half(base::DType::bf16, ReduceOp::sum, in, out);
  EXPECT_EQ(float_from_bf16(out[0]), 256.0F);
  EXPECT_EQ(float_from_bf16(out[1]), 260.0F);
}

TEST(Half, OverflowOfASumIsInfinity) {
  const std::array<uint16_t, 1> in = {f16_from_float(65504)};
  std::array<uint16_t, 1> out = in;
  reduce_half(base::DType::f16, ReduceOp::sum, in, out);
  EXPECT_TRUE(std::isinf(float_from_f16(out[0])));
}

}  // namespace
}  // namespace ddpm::comm
