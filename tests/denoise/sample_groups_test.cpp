// How samples of a dataset are grouped, and the groups put into shards.
#include <gtest/gtest.h>

#include "denoise/sample_dataset.h"

namespace ddpm::denoise {
namespace {

constexpr uint64_t kSmall = 64;  // bytes of a sample
constexpr int64_t kPixels = 16;

TEST(SampleGroups, SmallSetsHaveWorkForSixteenRanks) {
  for (const int64_t samples : {1, 2, 9, 15, 16}) EXPECT_EQ(sample_shards(samples, kPixels, kSmall), samples);
  for (int64_t samples = 17; samples <= 300; ++samples)
    EXPECT_GE(sample_shards(samples, kPixels, kSmall), 9) << samples;
  EXPECT_EQ(sample_shards(32, kPixels, kSmall), 16);
  EXPECT_EQ(sample_shards(48, kPixels, kSmall), 16);
}

TEST(SampleGroups, LargeSetsAreMadeBySixteen) {
  for (int64_t samples = 1; samples <= 300; ++samples) {
    EXPECT_GE(sample_group(samples, kPixels), 1);
    EXPECT_LE(sample_group(samples, kPixels), kLargestGroup);
  }
  for (const int64_t samples : {241, 256, 257, 100'000}) EXPECT_EQ(sample_group(samples, kPixels), kLargestGroup);
  EXPECT_EQ(sample_shards(100'000, kPixels, kSmall), 256);
}

TEST(SampleGroups, LargeSamplesAreMadeByFewer) {
  constexpr int64_t kMany = 1000;
  EXPECT_EQ(sample_group(kMany, 512 * 512), kLargestGroup);
  EXPECT_EQ(sample_group(kMany, 512 * 513), kLargestGroup / 2);
  EXPECT_EQ(sample_group(kMany, 128 * 128 * 128), 2);
  EXPECT_EQ(sample_group(kMany, 256 * 256 * 256), 1);
  EXPECT_EQ(sample_group(40, 2048 * 2048), 1);
  EXPECT_EQ(sample_group(40, 512 * 512), 3);
}

}  // namespace
}  // namespace ddpm::denoise
