#include "data/order.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::data {
namespace {

std::vector<int64_t> epoch(const ImageOrder& order, int64_t e) {
  std::vector<int64_t> images;
  for (int64_t i = 0; i < order.count(); ++i) images.push_back(order.image(e * order.count() + i));
  return images;
}

std::vector<int64_t> counting(int64_t n) {
  std::vector<int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

using Case = std::tuple<Shuffle, int64_t, int64_t, int64_t>;  // shuffle, images, block, pool
class OrderTest : public testing::TestWithParam<Case> {};

TEST_P(OrderTest, EveryEpochReadsEveryImageOnce) {
  const auto [shuffle, count, block, pool] = GetParam();
  const ImageOrder order(count, 17, {.shuffle = shuffle, .block_images = block, .pool_images = pool});
  for (const int64_t e : {0, 1, 2, 3, 1000003}) {
    std::vector<int64_t> images = epoch(order, e);
    std::ranges::sort(images);
    EXPECT_EQ(images, counting(count)) << "epoch " << e;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, OrderTest,
                         testing::Combine(testing::Values(Shuffle::block, Shuffle::full, Shuffle::none),
                                          testing::Values(1, 2, 5, 127, 128, 129, 1000, 1025),
                                          testing::Values(1, 7, 128), testing::Values(1, 100, 256, 4096)));

TEST(ImageOrder, EpochsAndSeedsDiffer) {
  for (const Shuffle shuffle : {Shuffle::block, Shuffle::full}) {
    const ImageOrder one(1000, 1, {.shuffle = shuffle, .block_images = 10, .pool_images = 100});
    const ImageOrder two(1000, 2, {.shuffle = shuffle, .block_images = 10, .pool_images = 100});
    EXPECT_NE(epoch(one, 0), epoch(one, 1));
    EXPECT_NE(epoch(one, 0), epoch(two, 0));
    EXPECT_EQ(epoch(one, 5), epoch(one, 5));
  }
}

TEST(ImageOrder, WithoutShufflingTheStoredOrderRepeats) {
  const ImageOrder order(7, 1, {.shuffle = Shuffle::none});
  EXPECT_EQ(order.image(0), 0);
  EXPECT_EQ(order.image(6), 6);
  EXPECT_EQ(order.image(7), 0);
}

TEST(ImageOrder, AnotherSetBeginsAnEpoch) {
  for (const Shuffle shuffle : {Shuffle::block, Shuffle::full, Shuffle::none}) {
    ImageOrder order(30, 3, {.shuffle = shuffle, .block_images = 4, .pool_images = 8});
    const std::vector<int64_t> third = epoch(order, 3);
    order.begin(17, 3);
    std::vector<int64_t> images;
    for (int64_t slot = 17; slot < 47; ++slot) images.push_back(order.image(slot));
    EXPECT_EQ(images, third);
    EXPECT_EQ(order.epoch(46), 3);
    EXPECT_EQ(order.epoch(47), 4);
    EXPECT_THROW((void)order.image(16), base::InternalError);
  }
}

std::vector<int64_t> first_slots(const ImageOrder& order, int64_t count) {
  std::vector<int64_t> images;
  for (int64_t slot = 0; slot < count; ++slot) images.push_back(order.image(slot));
  return images;
}

TEST(ImageOrder, AnEpochOfSetsOfEqualWeightReadsEveryImageOnce) {
  for (const Shuffle shuffle : {Shuffle::block, Shuffle::full, Shuffle::none}) {
    const ImageOrder order({{.count = 17}, {.count = 1}, {.count = 60}}, 5, {.shuffle = shuffle, .block_images = 4});
    EXPECT_EQ(order.count(), 78);
    for (const int64_t e : {0, 1, 7}) {
      std::vector<int64_t> images = epoch(order, e);
      std::ranges::sort(images);
      EXPECT_EQ(images, counting(78)) << "epoch " << e;
    }
  }
}

TEST(ImageOrder, WeightsSayHowOftenTheImagesOfASetAreRead) {
  const ImageOrder order({{.count = 10, .weight = 0.5}, {.count = 7, .weight = 1.0}, {.count = 4, .weight = 0.75}}, 5,
                         {.shuffle = Shuffle::full});
  EXPECT_EQ(order.count(), 10 + 14 + 6);
  const std::vector<SetShare> shares = {
      {.images = 10, .slots = 10}, {.images = 7, .slots = 14}, {.images = 4, .slots = 6}};
  EXPECT_EQ(order.shares(), shares);
  constexpr int64_t kEpochs = 28;  // whole passes over each set
  std::vector<int64_t> times(21);
  for (const int64_t image : first_slots(order, kEpochs * order.count())) ++times[static_cast<std::size_t>(image)];
  for (std::size_t image = 0; image < times.size(); ++image) {
    EXPECT_EQ(times[image], image < 10 ? 28 : image < 17 ? 56 : 42) << image;
  }
}

TEST(ImageOrder, AnyStretchOfSlotsHasNearlyItsShareOfEachSet) {
  const ImageOrder order({{.count = 300}, {.count = 500}, {.count = 200}}, 5, {.shuffle = Shuffle::block});
  const std::vector<int64_t> images = first_slots(order, 3000);
  for (std::size_t begin = 0; begin + 20 <= images.size(); ++begin) {
    const auto first = static_cast<std::ptrdiff_t>(begin);
    const auto in = [&](int64_t low, int64_t high) {
      return std::count_if(images.begin() + first, images.begin() + first + 20,
                           [&](int64_t image) { return image >= low && image < high; });
    };
    EXPECT_LE(std::abs(in(0, 300) - 6), 2);
    EXPECT_LE(std::abs(in(300, 800) - 10), 2);
    EXPECT_LE(std::abs(in(800, 1000) - 4), 2);
  }
}

/// A set's images come in the order that they would have alone, so that pools of neighbours stay pools.
TEST(ImageOrder, ASetAmongOthersKeepsItsOrder) {
  const ImageOrderOptions options{.shuffle = Shuffle::block, .block_images = 10, .pool_images = 50};
  const ImageOrder mixed({{.count = 400}, {.count = 100}}, 5, options);
  const ImageOrder alone(100, 5, options);
  std::vector<int64_t> images;
  for (const int64_t image : epoch(mixed, 2)) {
    if (image >= 400) images.push_back(image - 400);
  }
  EXPECT_EQ(images, epoch(alone, 2));
}

TEST(ImageOrder, SetsOfEqualSizeMeetInOtherPairsInEachEpochWhereTheirOrdersAreTheirOwn) {
  for (const Shuffle shuffle : {Shuffle::block, Shuffle::full}) {
    const ImageOrderOptions options{.shuffle = shuffle, .block_images = 10, .pool_images = 50};
    ImageOrder order({{.count = 100}, {.count = 100}}, 5, options);
    const std::vector<int64_t> alone = epoch(ImageOrder(100, 5, options), 2);
    for (const SetOrders orders : {SetOrders::alike, SetOrders::own, SetOrders::alike}) {
      order.relate_sets(orders);
      EXPECT_EQ(order.set_orders(), orders);
      std::vector<int64_t> first;
      std::vector<int64_t> second;
      for (const int64_t image : epoch(order, 2)) (image < 100 ? first : second).push_back(image % 100);
      EXPECT_EQ(first, alone);
      EXPECT_EQ(second == alone, orders == SetOrders::alike);
      std::ranges::sort(second);
      EXPECT_EQ(second, counting(100));
    }
  }
}

TEST(ImageOrder, OneSetAloneKeepsItsOrder) {
  ImageOrder order(100, 5, {.shuffle = Shuffle::full});
  const std::vector<int64_t> before = epoch(order, 1);
  order.relate_sets(SetOrders::own);
  EXPECT_EQ(epoch(order, 1), before);
  EXPECT_EQ(order.set_orders(), SetOrders::alike);
}

TEST(ImageOrder, OneSetHasAShareOfItsOwn) {
  const std::vector<SetShare> whole = {{.images = 20, .slots = 20}};
  EXPECT_EQ(ImageOrder(20, 5, {}).shares(), whole);
  const std::vector<OrderedSet> weighted = {{.count = 20, .weight = 3.0}};
  EXPECT_EQ(ImageOrder(weighted, 5, {}).shares(), whole);
  EXPECT_NE(ImageOrder({{.count = 8}, {.count = 12}}, 5, {}).shares(), whole);
}

TEST(ImageOrder, WeightsThatAreTooFarApartAreRefused) {
  EXPECT_THROW(ImageOrder({{.count = 10, .weight = 1e-30}, {.count = 10}}, 5, {}), base::ConfigError);
}

/// 1003 images in blocks of 10, pools of 5 blocks: each pool holds whole blocks, 50 images, or 43 where the short one
/// is.
TEST(ImageOrder, PoolsAreMadeOfWholeBlocks) {
  const ImageOrder order(1003, 3, {.shuffle = Shuffle::block, .block_images = 10, .pool_images = 59});
  const std::vector<int64_t> images = epoch(order, 4);
  std::set<int64_t> seen;
  std::size_t at = 0;
  while (at < images.size()) {
    // A pool ends where every block that it touches is complete.
    std::set<int64_t> blocks;
    std::size_t wanted = 0;
    const std::size_t begin = at;
    do {
      const int64_t block = images[at++] / 10;
      if (blocks.insert(block).second) wanted += block == 100 ? 3 : 10;
    } while (at - begin < wanted);
    EXPECT_LE(blocks.size(), 5U);
    for (const int64_t block : blocks) EXPECT_TRUE(seen.insert(block).second) << "block " << block << " in two pools";
  }
  EXPECT_EQ(seen.size(), 101U);
}

TEST(ImageOrder, BlocksComeInRandomOrderAndImagesAreMixedWithinAPool) {
  const ImageOrder order(1000, 3, {.shuffle = Shuffle::block, .block_images = 10, .pool_images = 100});
  const std::vector<int64_t> images = epoch(order, 0);
  int64_t neighbours = 0;
  for (std::size_t i = 1; i < images.size(); ++i) neighbours += images[i] == images[i - 1] + 1 ? 1 : 0;
  EXPECT_LT(neighbours, 30);  // about 9 of 999 by chance, 990 when stored order survives in pools
  const std::set<int64_t> first_pool(images.begin(), images.begin() + 100);
  EXPECT_GT(*first_pool.rbegin() - *first_pool.begin(), 500);
}

/// Where an image comes in an epoch is spread evenly: chi-squared over 10 parts of the epoch, for each of 10 images.
TEST(ImageOrder, FullShuffleIsEven) {
  constexpr int kEpochs = 2000;
  const ImageOrder order(100, 9, {.shuffle = Shuffle::full});
  std::vector<std::vector<int>> hits(10, std::vector<int>(10));
  for (int64_t e = 0; e < kEpochs; ++e) {
    const std::vector<int64_t> images = epoch(order, e);
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (images[i] < 10) ++hits[static_cast<std::size_t>(images[i])][i / 10];
    }
  }
  for (const auto& parts : hits) {
    double chi2 = 0.0;
    for (const int n : parts) chi2 += (n - 200.0) * (n - 200.0) / 200.0;
    EXPECT_LT(chi2, 33.7);  // 9 degrees of freedom, p = 1e-4
  }
}

}  // namespace
}  // namespace ddpm::data
