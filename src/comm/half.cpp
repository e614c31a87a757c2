#include "comm/half.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ddpm::comm {
namespace {

template <float (*widen)(uint16_t), uint16_t (*narrow)(float), typename Combine>
void reduce(std::span<const uint16_t> in, std::span<uint16_t> in_out, Combine combine) {
  for (std::size_t i = 0; i < in.size(); ++i) in_out[i] = narrow(combine(widen(in[i]), widen(in_out[i])));
}

template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
void reduce(ReduceOp op, std::span<const uint16_t> in, std::span<uint16_t> in_out) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<widen, narrow>(in, in_out, [](float a, float b) { return a + b; });
    case ReduceOp::min:
      return reduce<widen, narrow>(in, in_out, [](float a, float b) { return std::min(a, b); });
    case ReduceOp::max:
      return reduce<widen, narrow>(in, in_out, [](float a, float b) { return std::max(a, b); });
  }
}

}  // namespace

// The conversions compute every case and then choose: without branches the loops above become vector code.

float float_from_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16U;
  const uint32_t exponent = bits & 0x7c00U;
  const uint32_t shifted = (bits & 0x7fffU) << 13U;
  constexpr uint32_t kBias = (127U - 15U) << 23U;  // between the exponents of the two formats
  constexpr uint32_t kSmallest = 113U << 23U;      // 2^-14
  // A subnormal m * 2^-24 is what 2^-14 * (1 + m / 1024) has above 2^-14.
  const float subnormal = std::bit_cast<float>(shifted + kSmallest) - std::bit_cast<float>(kSmallest);
  const uint32_t normal = shifted + kBias;
  const uint32_t special = normal + kBias;  // infinity and NaN: the exponent has all bits set in both
  const uint32_t finite = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(sign | (exponent == 0x7c00U ? special : finite));
}

float float_from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U); }

uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16U) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  const uint32_t nan = 0x7e00U | ((magnitude >> 13U) & 0x01ffU);
  constexpr uint32_t kInfinity = 0x7c00U;
  // Below 2^-14, adding 0.5 rounds to multiples of 2^-24, the step of binary16's subnormals.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  const uint32_t rounded = magnitude + 0x0fffU + ((magnitude >> 13U) & 1U);
  const uint32_t normal = (rounded - ((127U - 15U) << 23U)) >> 13U;

  uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
  half =
      magnitude >= 0x477ff000U ? kInfinity : half;  // 65520, half-way from the largest number to the next power of two
  half = magnitude > 0x7f800000U ? nan : half;
  return static_cast<uint16_t>(sign | half);
}

uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  const uint32_t nan = (bits >> 16U) | 0x0040U;
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

void reduce_half(base::DType dtype, ReduceOp op, std::span<const uint16_t> in, std::span<uint16_t> in_out) {
  DDPM_CHECK(in.size() == in_out.size(), "{} and {} elements", in.size(), in_out.size());
  if (dtype == base::DType::bf16) {
    reduce<float_from_bf16, bf16_from_float>(op, in, in_out);
  } else {
    DDPM_CHECK(dtype == base::DType::f16, "dtype {}", static_cast<int>(dtype));
    reduce<float_from_f16, f16_from_float>(op, in, in_out);
  }
}

}  // namespace ddpm::comm
