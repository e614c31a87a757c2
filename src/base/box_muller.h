// The arithmetic of normals (base/random.h), one number at a time: for vector code and for CUDA kernels, which get the
// same bits. Only additions, multiplications and divisions of doubles, which IEEE 754 rounds in one way: files that
// include this are compiled without fused multiply-add. constexpr, so that nvcc compiles it for kernels too.
//
// Box, Muller: "A note on the generation of random normal deviates", 1958. With u and v uniform in (0, 1):
// sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v).
#pragma once

#include <bit>
#include <cstdint>
#include <numbers>

namespace ddpm::base::box_muller {

inline constexpr double kTwoTo52 = 0x1p52;
inline constexpr uint64_t kTwoTo52Bits = 0x4330000000000000U;

/// Converts an integer below 2^52. The result is exact, and vector code without AVX-512 can compute it.
[[gnu::always_inline]] constexpr double to_double(uint64_t integer) {
  return std::bit_cast<double>(integer | kTwoTo52Bits) - kTwoTo52;
}

/// (word + 0.5) / 2^32
[[gnu::always_inline]] constexpr double uniform_of(uint32_t word) { return (to_double(word) + 0.5) * 0x1p-32; }

/// ln u for u in (0, 1): u = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh s, s = (m - 1) / (m + 1), |s| <
/// 0.172. The first term of the series left out is below 2e-14 of the result.
[[gnu::always_inline]] constexpr double natural_log(double u) {
  constexpr uint64_t kOneBits = 0x3FF0000000000000U;
  constexpr uint64_t kRootHalfBits = 0x3FE6A09E667F3BCDU;
  const uint64_t bits = std::bit_cast<uint64_t>(u);
  const uint64_t biased = (bits - kRootHalfBits + kOneBits) >> 52U;  // e + 1023
  const double m = std::bit_cast<double>(bits - (biased << 52U) + kOneBits);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 1.0 / 17.0;
  series = series * z + 1.0 / 15.0;
  series = series * z + 1.0 / 13.0;
  series = series * z + 1.0 / 11.0;
  series = series * z + 1.0 / 9.0;
  series = series * z + 1.0 / 7.0;
  series = series * z + 1.0 / 5.0;
  series = series * z + 1.0 / 3.0;
  series = series * z + 1.0;
  return (to_double(biased) - 1023.0) * std::numbers::ln2 + 2.0 * s * series;
}

struct SineCosine {
  double sine, cosine;
};

/// Sine and cosine of 2 pi (word + 0.5) / 2^32. The nearest multiple of a quarter turn is taken off in integers; what
/// is left lies within pi/4, where the first term of each series left out is below 3e-14.
[[gnu::always_inline]] constexpr SineCosine sine_cosine(uint32_t word) {
  const uint32_t eighth = word + (1U << 29U);
  const uint32_t quarter = eighth >> 30U;
  const double rest = to_double(eighth & 0x3FFFFFFFU) - 0x1p29 + 0.5;
  const double x = rest * (2.0 * std::numbers::pi * 0x1p-32);
  const double z = x * x;
  double sine = 1.0 / 6227020800.0;
  sine = sine * z - 1.0 / 39916800.0;
  sine = sine * z + 1.0 / 362880.0;
  sine = sine * z - 1.0 / 5040.0;
  sine = sine * z + 1.0 / 120.0;
  sine = sine * z - 1.0 / 6.0;
  sine = (sine * z + 1.0) * x;
  double cosine = -1.0 / 87178291200.0;
  cosine = cosine * z + 1.0 / 479001600.0;
  cosine = cosine * z - 1.0 / 3628800.0;
  cosine = cosine * z + 1.0 / 40320.0;
  cosine = cosine * z - 1.0 / 720.0;
  cosine = cosine * z + 1.0 / 24.0;
  cosine = cosine * z - 0.5;
  cosine = cosine * z + 1.0;
  // A quarter turn takes (cos, sin) to (-sin, cos), a half turn changes both signs; done on the bits, without branches.
  const uint64_t s_bits = std::bit_cast<uint64_t>(sine);
  const uint64_t c_bits = std::bit_cast<uint64_t>(cosine);
  const uint64_t swap = (s_bits ^ c_bits) & (uint64_t{0} - (quarter & 1U));
  const uint64_t sine_sign = uint64_t{quarter >> 1U} << 63U;
  const uint64_t cosine_sign = uint64_t{(quarter >> 1U) ^ (quarter & 1U)} << 63U;
  return {std::bit_cast<double>(s_bits ^ swap ^ sine_sign), std::bit_cast<double>(c_bits ^ swap ^ cosine_sign)};
}

}  // namespace ddpm::base::box_muller
