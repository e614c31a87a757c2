// Shards are cut by the bytes of their sources, and a hash of its name says which set an image goes into.
#include "data/prepare/split.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(CutByCost, EqualCostsGiveEqualShards) {
  EXPECT_THAT(cut_by_cost(std::vector<int64_t>(12, 5), 4), ElementsAre(0, 3, 6, 9, 12));
  EXPECT_THAT(cut_by_cost(std::vector<int64_t>(3, 5), 3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(cut_by_cost(std::vector<int64_t>(1, 5), 1), ElementsAre(0, 1));
}

TEST(CutByCost, AShardIsOffByLessThanItsLargestCandidates) {
  const base::RandomSequence random(3, base::Stream::crop, 0, 0);
  std::vector<int64_t> costs;
  for (uint64_t i = 0; i < 1000; ++i) {
    costs.push_back(1 + random.below(i < 500 ? 10 : 1000, i));
  }
  const int64_t total = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  const std::vector<int64_t> borders = cut_by_cost(costs, 16);
  ASSERT_EQ(borders.size(), 17U);
  for (std::size_t s = 0; s < 16; ++s) {
    const int64_t sum = std::accumulate(costs.begin() + borders[s], costs.begin() + borders[s + 1], int64_t{0});
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(total) / 16, 1000.0);
  }
}

TEST(CutByCost, NoShardIsEmpty) {
  EXPECT_THAT(cut_by_cost(std::vector<int64_t>{1000000, 1, 1, 1}, 4), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(cut_by_cost(std::vector<int64_t>{1, 1, 1, 1000000}, 4), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(cut_by_cost(std::vector<int64_t>{1, 1, 1, 1, 1000000, 1}, 2), ElementsAre(0, 4, 6));
}

TEST(CutByCost, CostsOfManyTerabytesDoNotOverflow) {
  const std::vector<int64_t> costs(90000, int64_t{1} << 46U);
  const std::vector<int64_t> borders = cut_by_cost(costs, 30000);
  for (std::size_t s = 0; s < 30000; ++s) ASSERT_EQ(borders[s + 1] - borders[s], 3);
}

TEST(Validation, IsToldByTheFirstBitsOfTheNamesHash) {
  // sha256("a") begins with ca97..., sha256("b") with 3e23..., which are 0.791 and 0.243 of all.
  EXPECT_FALSE(is_for_validation("a", 79.0));
  EXPECT_TRUE(is_for_validation("a", 79.2));
  EXPECT_FALSE(is_for_validation("b", 24.2));
  EXPECT_TRUE(is_for_validation("b", 24.4));
  EXPECT_FALSE(is_for_validation("b", 0.0));
  EXPECT_TRUE(is_for_validation("a", 100.0));
}

std::unique_ptr<ImageSource> named(const base::FileSystem& files, std::vector<std::string> names) {
  PictureFiles pictures;
  pictures.set.source = "pictures";
  pictures.names = std::move(names);
  return read_pictures(files, std::move(pictures), {});
}

TEST(Split, TakesEachImageIntoOneSet) {
  const auto files = base::posix_file_system();
  std::vector<std::string> names;
  names.reserve(2000);
  for (int i = 0; i < 2000; ++i) names.push_back(std::to_string(i) + ".png");
  const auto source = named(*files, names);
  const std::vector<SplitPart> whole = split(*source, 8, 0.0);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].candidates.size(), 2000U);
  EXPECT_EQ(whole[0].shard_name(3), "shard-00003-of-00008.h5");

  const std::vector<SplitPart> parts = split(*source, 8, 25.0);
  ASSERT_EQ(parts.size(), 2U);
  std::set<int64_t> all(parts[0].candidates.begin(), parts[0].candidates.end());
  all.insert(parts[1].candidates.begin(), parts[1].candidates.end());
  EXPECT_EQ(all.size(), 2000U);
  EXPECT_EQ(parts[0].candidates.size() + parts[1].candidates.size(), 2000U);
  EXPECT_NEAR(static_cast<double>(parts[1].candidates.size()), 500.0, 4 * 19.4);  // 4 standard deviations
  EXPECT_EQ(parts[0].shards, 8);
  EXPECT_EQ(parts[1].shards, 2);
  EXPECT_EQ(parts[1].shard_name(1), "validation/shard-00001-of-00002.h5");
}

TEST(Split, RefusesAnEmptySetAndImagesWithoutNames) {
  const auto files = base::posix_file_system();
  EXPECT_THAT(
      [&] {
        (void)split(*named(*files, {"a", "b"}), 8, 1.0);
      },
      ThrowsMessage<base::DatasetError>(HasSubstr("none of 2 images falls into the validation set")));
  EXPECT_THAT(
      [&] {
        (void)split(*named(*files, {"a", "b"}), 8, 99.0);
      },
      ThrowsMessage<base::DatasetError>(HasSubstr("none of 2 images falls into the training set")));
  EXPECT_THAT([&] { (void)split(*named(*files, {""}), 8, 5.0); },
              ThrowsMessage<base::ConfigError>(HasSubstr("have no names")));
}

}  // namespace
}  // namespace ddpm::data::prepare
