#include "data/loader.h"

#include <thread>

#include <gmock/gmock.h>

#include "data/sample_set.h"
#include "data/shared_folder.h"

namespace ddpm::data {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr ImageFormat kLoaded = {.height = 4, .width = 4, .channels = 3, .dtype = base::DType::u8};
constexpr int64_t kGlobal = 8;

class LoaderTest : public SharedFolderTest {
 protected:
  Dataset open_new(int64_t count, bool has_labels = true) {
    on_rank_0([&] { info_ = write_sample_set(folder_ / "set", kLoaded, has_labels, {count / 3, count - count / 3}); });
    return Dataset::open(comm(), folder_ / "set");
  }
  /// This rank's share, micro-batches of `micro`.
  static BatchLoaderOptions share(int64_t micro, int64_t end_step) {
    return {.layout = layout::BatchLayout::make(kGlobal, micro, comm().size()),
            .rank = comm().rank(),
            .end_step = end_step};
  }

  DatasetInfo info_;  // on rank 0
};

ImageOrder order_of(int64_t count) {
  return {count, 5, {.shuffle = Shuffle::block, .block_images = 4, .pool_images = 16}};
}

/// Everything about the batch follows from the order: indices, and the stored bytes and labels of those images.
void expect_slots(const MicroBatch& batch, const ImageOrder& order, bool labels) {
  const int64_t n = batch.positions.size();
  ASSERT_EQ(std::ssize(batch.indices), n);
  ASSERT_EQ(batch.values.size(), labels ? 2U : 1U);
  ASSERT_EQ(batch.values[0].size(), static_cast<std::size_t>(n) * kLoaded.bytes());
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int64_t index = order.image(batch.step * kGlobal + batch.positions.begin + i);
    EXPECT_EQ(batch.indices[at], index);
    const auto image = sample_image(kLoaded, index);
    EXPECT_TRUE(std::equal(image.begin(), image.end(), batch.values[0].begin() + i * std::ssize(image))) << index;
    if (!labels) continue;
    EXPECT_EQ(labels_of(batch)[at], sample_label(index));
  }
}

TEST_F(LoaderTest, EverySlotIsReadOnceOnOneRankWhateverTheirNumber) {
  const Dataset set = open_new(29);
  const ImageOrder order = order_of(29);
  for (const int64_t micro : {1, 2}) {
    constexpr int64_t kSteps = 9;  // 72 slots: over two epochs
    std::vector<int64_t> read(kSteps * kGlobal);
    BatchLoader loader(set, order, share(micro, kSteps));
    const int64_t accumulation = kGlobal / (micro * comm().size());
    for (int64_t i = 0; i < kSteps * accumulation; ++i) {
      const MicroBatch batch = loader.next();
      EXPECT_EQ(batch.step, i / accumulation);
      EXPECT_EQ(batch.micro, i % accumulation);
      expect_slots(batch, order, true);
      for (int64_t p = batch.positions.begin; p < batch.positions.end; ++p) {
        ++read[static_cast<std::size_t>(batch.step * kGlobal + p)];
      }
    }
    comm::all_reduce(comm(), std::span(read), comm::ReduceOp::sum);
    EXPECT_THAT(read, testing::Each(1));
    EXPECT_THROW(loader.next(), base::InternalError);
  }
}

TEST_F(LoaderTest, ResumingIsSkipping) {
  const Dataset set = open_new(29);
  const ImageOrder order = order_of(29);
  BatchLoader whole(set, order, share(1, 12));
  auto options = share(1, 12);
  options.first_step = 7;
  options.prefetch = 0;
  BatchLoader resumed(set, order, options);
  const int64_t accumulation = options.layout.accumulation_steps();
  for (int64_t i = 0; i < 7 * accumulation; ++i) whole.next();
  for (int64_t i = 0; i < 5 * accumulation; ++i) {
    const MicroBatch a = whole.next();
    const MicroBatch b = resumed.next();
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.positions, b.positions);
    EXPECT_EQ(a.indices, b.indices);
    EXPECT_EQ(a.values, b.values);
  }
}

TEST_F(LoaderTest, ABatchLargerThanTheSetRepeatsImages) {
  const Dataset set = open_new(3, false);
  const ImageOrder order = order_of(3);
  auto options = share(kGlobal / comm().size(), 3);
  BatchLoader loader(set, order, options);
  for (int step = 0; step < 3; ++step) expect_slots(loader.next(), order, false);
}

TEST_F(LoaderTest, ASetThatIsReadIsNotClosed) {
  Dataset set = open_new(3, false);
  for (const int64_t prefetch : {0, 2}) {
    auto options = share(kGlobal / comm().size(), 3);
    options.prefetch = prefetch;
    const BatchLoader loader(set, order_of(3), options);
    EXPECT_THROW(set.close(comm()), base::InternalError);
  }
  set.close(comm());
}

TEST_F(LoaderTest, AnErrorOfTheThreadArrivesAtItsOwnMicroBatch) {
  on_rank_0([&] {
    info_ = write_sample_set(folder_ / "set", kLoaded, true, {29});
    // Image 20, in stored order: position 4 of step 2.
    const auto offset = info_.shards[0].header_size + 20 * kLoaded.bytes();
    test::flip_bit(folder_ / "set" / info_.shards[0].file, static_cast<std::streamoff>(offset));
  });
  const Dataset set = Dataset::open(comm(), folder_ / "set");
  const ImageOrder order(29, 5, {.shuffle = Shuffle::none});
  for (const int64_t prefetch : {0, 1, 100}) {
    auto options = share(1, 3);
    options.prefetch = prefetch;
    BatchLoader loader(set, order, options);
    const layout::Range mine = {options.layout.positions(options.rank, 0).begin,
                                options.layout.positions(options.rank, options.layout.accumulation_steps() - 1).end};
    const bool damaged_is_mine = mine.begin <= 4 && 4 < mine.end;
    const int64_t good = 2 * mine.size() + (damaged_is_mine ? 4 - mine.begin : mine.size());
    for (int64_t i = 0; i < good; ++i) expect_slots(loader.next(), order, true);
    if (!damaged_is_mine) continue;
    EXPECT_THAT(refusal([&] { return loader.next(); }), HasSubstr("number 20 of the dataset) is damaged"));
    EXPECT_THAT(refusal([&] { return loader.next(); }), HasSubstr("number 20 of the dataset) is damaged"));
  }
}

TEST_F(LoaderTest, StopsAtAnyTime) {
  const Dataset set = open_new(29);
  const ImageOrder order = order_of(29);
  for (const int64_t taken : {0, 1, 5}) {
    BatchLoader loader(set, order, share(1, 1000000));
    for (int64_t i = 0; i < taken; ++i) loader.next();
  }
}

TEST_F(LoaderTest, ReadsAheadSoThatNobodyWaits) {
  const Dataset set = open_new(29);
  auto options = share(1, 4);
  options.prefetch = 4;
  BatchLoader loader(set, order_of(29), options);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (int i = 0; i < 4; ++i) loader.next();
  EXPECT_LT(loader.seconds_waited(), 0.1);
}

TEST_F(LoaderTest, AnOrderOfAnotherSizeIsABug) {
  const Dataset set = open_new(29);
  EXPECT_THROW(BatchLoader(set, order_of(30), share(1, 4)), base::InternalError);
}

}  // namespace
}  // namespace ddpm::data
