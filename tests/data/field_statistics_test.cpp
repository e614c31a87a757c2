// Statistics of all variables of a set, gathered by all ranks together.
#include "data/field_statistics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/sample_set.h"
#include "data/shared_folder.h"

namespace ddpm::data {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr ImageFormat kFlatPair{.height = 6, .width = 8, .channels = 2, .dtype = base::DType::f32};

class FieldStatisticsTest : public SharedFolderTest {
 protected:
  /// A folder whose shards hold `counts` images.
  Path make(const std::vector<int64_t>& counts, base::DType dtype = base::DType::f32) const {
    ImageFormat format = kFlatPair;
    format.dtype = dtype;
    const Path path = folder_ / fmt::format("set-{}-{}", counts.size(), static_cast<int>(dtype));
    on_rank_0([&] {
      std::filesystem::remove_all(path);
      write_sample_set(path, format, true, counts);
    });
    return path;
  }

  static VariableStatistics of(comm::Communicator& ranks, const Path& path, const FieldStatisticsOptions& options,
                               std::vector<FieldStatistics>* all = nullptr) {
    Dataset set = Dataset::open(ranks, path);
    const std::vector<FieldStatistics> fields = field_statistics(ranks, set, options);
    set.close(ranks);
    EXPECT_THAT(fields, SizeIs(1)) << "labels have no variables";
    if (all != nullptr) *all = fields;
    return fields.at(0).variables.at(1);
  }
  VariableStatistics of(const Path& path, const FieldStatisticsOptions& options = {}) const {
    return of(comm(), path, options);
  }
  static VariableStatistics of_one_rank(const Path& path) {
    const auto self = comm().split(comm().rank(), 0);
    return of(*self, path, {});
  }
};

/// All bits of both, NaN aside.
void expect_same(const VariableStatistics& a, const VariableStatistics& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.moments.mean, b.moments.mean);
  EXPECT_EQ(a.moments.std, b.moments.std);
  EXPECT_EQ(a.moments.skewness, b.moments.skewness);
  EXPECT_EQ(a.moments.kurtosis, b.moments.kurtosis);
  EXPECT_EQ(a.quantiles, b.quantiles);
  EXPECT_EQ(a.histogram.counts, b.histogram.counts);
  EXPECT_EQ(a.power, b.power);
}

TEST_F(FieldStatisticsTest, HaveTheSameBitsForAnyNumberOfRanksAndShards) {
  for (const auto dtype : {base::DType::f32, base::DType::u8}) {
    const VariableStatistics one_shard = of(make({501}, dtype));
    EXPECT_EQ(one_shard.count, 501 * kFlatPair.pixels());
    EXPECT_EQ(one_shard.spectra, 501);
    EXPECT_THAT(one_shard.power, SizeIs(4));
    expect_same(of_one_rank(make({501}, dtype)), one_shard);
    expect_same(of(make({100, 1, 300, 100}, dtype)), one_shard);
  }
}

TEST_F(FieldStatisticsTest, WhatTheModelSeesIsTransformed) {
  const VariableStatistics seen = of(make({20}, base::DType::u8), {.bins = 5, .transformed = true});
  const VariableStatistics stored = of(make({20}, base::DType::u8));
  EXPECT_THAT(stored.histogram.counts, SizeIs(256));
  EXPECT_THAT(seen.histogram.counts, SizeIs(5));
  EXPECT_NEAR(seen.moments.mean, stored.moments.mean / 127.5 - 1.0, 1e-7);
  EXPECT_NEAR(seen.moments.std, stored.moments.std / 127.5, 1e-7);
  EXPECT_NEAR(seen.moments.skewness, stored.moments.skewness, 1e-5);
}

TEST_F(FieldStatisticsTest, DamagedImagesAreNamedAndLeftOut) {
  const Path path = make({30, 10});
  on_rank_0([&] {
    const Path shard = path / shard_file_name(0, 2);
    test::flip_bit(shard, static_cast<std::streamoff>(std::filesystem::file_size(shard)) - 9);
  });
  std::vector<FieldStatistics> fields;
  const VariableStatistics seen = of(comm(), path, {}, &fields);
  EXPECT_EQ(fields[0].images, 40);
  EXPECT_EQ(fields[0].unusable, 1);
  ASSERT_THAT(fields[0].faults, SizeIs(1));
  EXPECT_THAT(fields[0].faults[0], HasSubstr("image 29 "));
  EXPECT_EQ(seen.count, 39 * kFlatPair.pixels());
  EXPECT_EQ(seen.spectra, 39);
}

TEST_F(FieldStatisticsTest, ASampleIsSpreadOverTheSet) {
  std::vector<FieldStatistics> fields;
  const VariableStatistics seen = of(comm(), make({40}), {.most_images = 4}, &fields);
  EXPECT_EQ(fields[0].images, 4);
  EXPECT_EQ(seen.count, 4 * kFlatPair.pixels());
}

TEST_F(FieldStatisticsTest, ProgressReachesItsTotalOnEachRank) {
  Dataset set = Dataset::open(comm(), make({10}));
  int64_t last = 0;
  int64_t whole = 0;
  field_statistics(comm(), set, {}, [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    last = done;
    whole = total;
  });
  EXPECT_EQ(last, whole);
  EXPECT_EQ(whole, 10) << "the images of all ranks, however often each is read";
  set.close(comm());
}

}  // namespace
}  // namespace ddpm::data
