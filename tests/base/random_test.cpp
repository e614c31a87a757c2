#include "base/random.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/error.h"

namespace ddpm::base {
namespace {

constexpr uint64_t kSeed = 0x0123456789ABCDEFU;

RandomSequence noise(uint64_t step = 5, uint64_t position = 9) { return {kSeed, Stream::noise, step, position}; }

std::vector<float> normals(std::size_t count, uint64_t first = 0) {
  std::vector<float> values(count);
  noise().fill_normal(values, first);
  return values;
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Random123's kat_vectors for "philox4x32 10": counter, key, result.
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32(0, {0, 0, 0, 0}), (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox4x32(~uint64_t{0}, {~0U, ~0U, ~0U, ~0U}), (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox4x32(0x299F31D0A4093822U, {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(RandomSequence, TheCounterIsBlockPositionStepStream) {
  const RandomSequence sequence(kSeed, Stream::flip, 11, 22);
  EXPECT_EQ(sequence.block(33), philox4x32(kSeed, {33, 22, 11, 3}));
  for (uint64_t element = 0; element < 12; ++element) {
    EXPECT_EQ(sequence.bits(element), sequence.block(static_cast<uint32_t>(element / 4))[element % 4]);
    EXPECT_EQ(sequence.uniform(element), (sequence.bits(element) + 0.5) / 4294967296.0);
    EXPECT_EQ(sequence.below(1000, element), static_cast<uint32_t>(sequence.bits(element) * 1000.0 / 4294967296.0));
  }
}

TEST(RandomSequence, BelowIsUniform) {
  constexpr int kDraws = 60000;
  const RandomSequence sequence = noise();
  std::array<int, 6> counts{};
  for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(sequence.below(6, i));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 6.0, 460);  // five standard deviations
  EXPECT_EQ(sequence.below(1), 0U);
}

// The definition in double precision by the C library: u from words 0 and 2, the angle from words 1 and 3.
TEST(FillNormal, IsBoxMullerOverWordPairs) {
  constexpr std::size_t kCount = 100000;
  const std::vector<float> values = normals(kCount);
  const RandomSequence sequence = noise();
  for (std::size_t i = 0; i < kCount; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(sequence.uniform(i)));
    const double angle = 2.0 * std::numbers::pi * sequence.uniform(i + 1);
    const auto first = static_cast<float>(radius * std::cos(angle));
    const auto second = static_cast<float>(radius * std::sin(angle));
    ASSERT_NEAR(values[i], first, std::abs(first) * 1.2e-7 + 1e-15) << i;
    ASSERT_NEAR(values[i + 1], second, std::abs(second) * 1.2e-7 + 1e-15) << i;
  }
}

TEST(FillNormal, HasTheMomentsOfANormal) {
  constexpr std::size_t kCount = 1U << 20U;
  double sum = 0;
  double sum2 = 0;
  double sum3 = 0;
  double sum4 = 0;
  for (const float value : normals(kCount)) {
    const double x = value;
    sum += x;
    sum2 += x * x;
    sum3 += x * x * x;
    sum4 += x * x * x * x;
  }
  const double n = kCount;
  // Five standard deviations: the variances of x, x^2, x^3 and x^4 are 1, 2, 15 and 96.
  EXPECT_NEAR(sum / n, 0.0, 5.0 * std::sqrt(1.0 / n));
  EXPECT_NEAR(sum2 / n, 1.0, 5.0 * std::sqrt(2.0 / n));
  EXPECT_NEAR(sum3 / n, 0.0, 5.0 * std::sqrt(15.0 / n));
  EXPECT_NEAR(sum4 / n, 3.0, 5.0 * std::sqrt(96.0 / n));
}

TEST(FillNormal, AnElementHasTheSameBitsHoweverTheRangeIsCut) {
  constexpr std::size_t kCount = 700;
  const std::vector<float> whole = normals(kCount);
  for (std::size_t first = 0; first < 140; ++first) {
    for (const std::size_t count : {1U, 2U, 3U, 5U, 64U, 127U, 128U, 129U, 500U}) {
      const std::vector<float> part = normals(count, first);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_TRUE(same_bits(part[i], whole[first + i])) << first << " " << count;
    }
  }
}

TEST(FillNormal, ReachesTheLastElementAndNotBeyond) {
  constexpr uint64_t kElements = uint64_t{4} << 32U;
  const std::vector<float> last = normals(2, kElements - 2);
  const RandomSequence sequence = noise();
  const double radius = std::sqrt(-2.0 * std::log(sequence.uniform(kElements - 2)));
  EXPECT_NEAR(last[0], radius * std::cos(2.0 * std::numbers::pi * sequence.uniform(kElements - 1)), 1e-6);
  EXPECT_THROW(normals(3, kElements - 2), InternalError);
  EXPECT_THROW((void)sequence.bits(kElements), InternalError);
}

// One checksum for every processor: no fused operation, no choice of instruction set may change a bit.
TEST(FillNormal, HasTheSameBitsOnEveryProcessor) {
  const std::vector<float> values = normals(100000);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(values))), 0xDF41C86DU);
}

TEST(FillUniform, FollowsTheWordsAndStaysBelowHigh) {
  constexpr std::size_t kCount = 4096;
  const RandomSequence sequence = noise();
  std::vector<float> values(kCount);
  sequence.fill_uniform(values, -2.0F, 3.0F);
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_FLOAT_EQ(values[i], static_cast<float>(-2.0 + 5.0 * sequence.uniform(i)));
  // One step wide: rounding to nearest would give `high` half of the time.
  const float high = std::nextafter(1.0F, 2.0F);
  sequence.fill_uniform(values, 1.0F, high);
  for (const float value : values) ASSERT_EQ(value, 1.0F);
  std::vector<float> part(50);
  std::vector<float> whole(200);
  sequence.fill_uniform(part, 0.0F, 1.0F, 101);
  sequence.fill_uniform(whole, 0.0F, 1.0F);
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_TRUE(same_bits(part[i], whole[101 + i]));
}

TEST(RandomSequence, StreamsStepsAndPositionsDiffer) {
  const uint32_t word = noise().bits(0);
  EXPECT_NE(noise(6, 9).bits(0), word);
  EXPECT_NE(noise(5, 10).bits(0), word);
  EXPECT_NE(RandomSequence(kSeed, dropout_stream(0), 5, 9).bits(0),
            RandomSequence(kSeed, dropout_stream(1), 5, 9).bits(0));
  EXPECT_THROW(noise(uint64_t{1} << 32U, 0), InternalError);
  EXPECT_THROW(noise(0, uint64_t{1} << 32U), InternalError);
}

}  // namespace
}  // namespace ddpm::base
