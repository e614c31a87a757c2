// Normals and uniforms for ranges of elements, in groups of fixed size and fixed lanes.
//
// A group is always computed whole by one loop without remainder, also when only a part of it is asked for: an
// element's bits depend on nothing but its number. This file is compiled without fused multiply-add, and uses nothing
// but operations that IEEE 754 rounds in one way, so neither do they depend on the instruction set chosen below.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/philox.h"
#include "base/random.h"

namespace ddpm::base {
namespace {

constexpr std::size_t kLanes = 32;          // Philox blocks per group
constexpr std::size_t kGroup = 4 * kLanes;  // elements per group
constexpr double kTwoTo52 = 0x1p52;
constexpr uint64_t kTwoTo52Bits = 0x4330000000000000U;

using Counter = std::array<uint32_t, 4>;
using Words = std::array<std::array<uint32_t, kLanes>, 4>;
using Group = std::array<float, kGroup>;
/// Fills one group; `counter[0]` is its first block.
using GroupFunction = void (*)(uint64_t seed, const Counter& counter, float low, float high, Group& out);

[[gnu::always_inline]] inline double to_double(
    uint64_t integer) {  // below 2^52; exact, and vector code without AVX-512 can do it
  return std::bit_cast<double>(integer | kTwoTo52Bits) - kTwoTo52;
}

[[gnu::always_inline]] inline double uniform_of(uint32_t word) { return (to_double(word) + 0.5) * 0x1p-32; }

// ln u for u in (0, 1): u = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh s, s = (m - 1) / (m + 1), |s| <
// 0.172. The first term of the series left out is below 2e-14 of the result.
[[gnu::always_inline]] inline double natural_log(double u) {
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

// Of the angle 2 pi (word + 0.5) / 2^32. The nearest multiple of a quarter turn is taken off in integers; what is left
// lies within pi/4, where the first term of each series left out is below 3e-14.
[[gnu::always_inline]] inline SineCosine sine_cosine(uint32_t word) {
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

[[gnu::always_inline]] inline void group_words(uint64_t seed, const Counter& counter, Words& words) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    PhiloxWords x{counter[0] + static_cast<uint32_t>(lane), counter[1], counter[2], counter[3]};
    philox_rounds(seed, x);
    words[0][lane] = x.w0;
    words[1][lane] = x.w1;
    words[2][lane] = x.w2;
    words[3][lane] = x.w3;
  }
}

[[gnu::always_inline]] inline void normal_group(uint64_t seed, const Counter& counter, Group& out) {
  Words words;
  group_words(seed, counter, words);
  std::array<std::array<float, kLanes>, 4> normals;
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double radius = std::sqrt(-2.0 * natural_log(uniform_of(words[pair][lane])));
      const SineCosine angle = sine_cosine(words[pair + 1][lane]);
      normals[pair][lane] = static_cast<float>(radius * angle.cosine);
      normals[pair + 1][lane] = static_cast<float>(radius * angle.sine);
    }
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t word = 0; word < 4; ++word) out[4 * lane + word] = normals[word][lane];
  }
}

[[gnu::always_inline]] inline void uniform_group(uint64_t seed, const Counter& counter, float low, float high,
                                                 Group& out) {
  Words words;
  group_words(seed, counter, words);
  const double start = low;
  const double width = double{high} - low;
  const float last = std::nextafter(high, low);  // rounding to float may reach `high`, which is excluded
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t word = 0; word < 4; ++word) {
      const auto value = static_cast<float>(start + width * uniform_of(words[word][lane]));
      out[4 * lane + word] = value < last ? value : last;
    }
  }
}

// The same source for each instruction set: what is above is inlined into, and vectorised for, the functions below.
void normals_baseline(uint64_t seed, const Counter& counter, float /*low*/, float /*high*/, Group& out) {
  normal_group(seed, counter, out);
}
void uniforms_baseline(uint64_t seed, const Counter& counter, float low, float high, Group& out) {
  uniform_group(seed, counter, low, high, out);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] void normals_avx2(uint64_t seed, const Counter& counter, float /*low*/, float /*high*/,
                                          Group& out) {
  normal_group(seed, counter, out);
}
[[gnu::target("avx2")]] void uniforms_avx2(uint64_t seed, const Counter& counter, float low, float high, Group& out) {
  uniform_group(seed, counter, low, high, out);
}
#endif

GroupFunction normals_function() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return normals_avx2;
#endif
  return normals_baseline;
}

GroupFunction uniforms_function() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return uniforms_avx2;
#endif
  return uniforms_baseline;
}

void fill(GroupFunction function, uint64_t seed, Counter counter, float low, float high, std::span<float> out,
          uint64_t first) {
  constexpr uint64_t kElements = uint64_t{4} << 32U;
  DDPM_CHECK(first <= kElements && out.size() <= kElements - first,
             "elements [{}, {}) lie beyond the last of a sequence", first, first + out.size());
  Group group;
  while (!out.empty()) {
    const std::size_t offset = first % kGroup;
    const std::size_t count = std::min(kGroup - offset, out.size());
    counter[0] = static_cast<uint32_t>((first - offset) / 4);
    function(seed, counter, low, high, group);
    std::copy_n(group.begin() + static_cast<std::ptrdiff_t>(offset), count, out.begin());
    out = out.subspan(count);
    first += count;
  }
}

}  // namespace

void RandomSequence::fill_normal(std::span<float> out, uint64_t first) const {
  fill(normals_function(), seed_, counter_, 0.0F, 1.0F, out, first);
}

void RandomSequence::fill_uniform(std::span<float> out, float low, float high, uint64_t first) const {
  fill(uniforms_function(), seed_, counter_, low, high, out, first);
}

}  // namespace ddpm::base
