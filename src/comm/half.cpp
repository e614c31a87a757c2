#include "comm/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

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

float float_from_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16U;
  const uint32_t exponent = bits & 0x7c00U;
  const uint32_t mantissa = bits & 0x03ffU;
  if (exponent == 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13U));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal in binary16, normal in float32: exact
    return sign != 0 ? -magnitude : magnitude;
  }
  // The exponent's bias goes from 15 to 127.
  return std::bit_cast<float>(sign | (((exponent | mantissa) << 13U) + ((127U - 15U) << 23U)));
}

float float_from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U); }

uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16U) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  uint32_t half = 0;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U | ((magnitude >> 13U) & 0x01ffU);
  } else if (magnitude >= 0x477ff000U) {  // 65520, half-way from the largest number to the next power of two
    half = 0x7c00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 rounds to multiples of 2^-24, the subnormal step
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  } else {
    const uint32_t rounded = magnitude + 0x0fffU + ((magnitude >> 13U) & 1U);
    half = (rounded - ((127U - 15U) << 23U)) >> 13U;
  }
  return static_cast<uint16_t>(sign | half);
}

uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16U) | 0x0040U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
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
