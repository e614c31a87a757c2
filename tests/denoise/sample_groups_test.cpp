// How samples of a dataset are grouped, and the groups put into shards.
#include <gtest/gtest.h>

#include "denoise/sample_dataset.h"

namespace ddpm::denoise {
namespace {

constexpr uint64_t kSmall = 64;  // bytes of a sample

TEST(SampleGroups, SmallSetsHaveWorkForSixteenRanks) {
  for (const int64_t samples : {1, 2, 9, 15, 16}) EXPECT_EQ(sample_shards(samples, kSmall), samples);
  for (int64_t samples = 17; samples <= 300; ++samples) EXPECT_GE(sample_shards(samples, kSmall), 9) << samples;
  EXPECT_EQ(sample_shards(32, kSmall), 16);
  EXPECT_EQ(sample_shards(48, kSmall), 16);
}

TEST(SampleGroups, LargeSetsAreMadeBySixteen) {
  for (int64_t samples = 1; samples <= 300; ++samples) {
    EXPECT_GE(sample_group(samples), 1);
    EXPECT_LE(sample_group(samples), kLargestGroup);
  }
  for (const int64_t samples : {241, 256, 257, 100'000}) EXPECT_EQ(sample_group(samples), kLargestGroup);
  EXPECT_EQ(sample_shards(100'000, kSmall), 256);
}

}  // namespace
}  // namespace ddpm::denoise
