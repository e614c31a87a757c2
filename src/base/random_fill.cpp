// Normals and uniforms for ranges of elements, in groups of fixed size and fixed lanes.
//
// A group is always computed whole by one loop without remainder, also when only a part of it is asked for: an
// element's bits depend on nothing but its number. This file is compiled without fused multiply-add, and uses nothing
// but operations that IEEE 754 rounds in one way (base/box_muller.h), so the bits do not depend on the instruction set
// chosen below either.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/box_muller.h"
#include "base/check.h"
#include "base/philox.h"
#include "base/random.h"

namespace ddpm::base {
namespace {

constexpr std::size_t kLanes = 32;          // Philox blocks per group
constexpr std::size_t kGroup = 4 * kLanes;  // elements per group

using Counter = std::array<uint32_t, 4>;
using Words = std::array<std::array<uint32_t, kLanes>, 4>;
using Group = std::array<float, kGroup>;
/// Fills one group; `counter[0]` is its first block.
using GroupFunction = void (*)(uint64_t seed, const Counter& counter, float low, float high, Group& out);

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
      const double radius = std::sqrt(-2.0 * box_muller::natural_log(box_muller::uniform_of(words[pair][lane])));
      const auto angle = box_muller::sine_cosine(words[pair + 1][lane]);
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
      const auto value = static_cast<float>(start + width * box_muller::uniform_of(words[word][lane]));
      out[4 * lane + word] = value < last ? value : last;
    }
  }
}

// The functions below compile one source for several instruction sets: the code above is inlined into each and
// vectorised for it.
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
