// With numbers of images, shards, batches, pools and ranks that divide nothing, every epoch reads every image once, as
// its bytes show, whatever order was asked for.
#include <map>
#include <optional>

#include <gmock/gmock.h>

#include "data/loader.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"

namespace ddpm::data {
namespace {

constexpr ImageFormat kFormat = {.height = 5, .width = 3, .channels = 1, .dtype = base::DType::u8};
constexpr int64_t kGlobal = 12;  // of 1 to 4 ranks; neither divides 37 nor is divided by it

struct Sizes {
  std::vector<int64_t> shards;
  Shuffle shuffle = Shuffle::block;
  int64_t block = 128;
  int64_t pool = 4096;
  int64_t micro = 1;
  int64_t prefetch = 2;
};

std::string text_of(std::span<const std::byte> image) {
  std::string text(image.size(), '\0');
  std::memcpy(text.data(), image.data(), image.size());
  return text;
}

/// Image by its bytes.
std::map<std::string, int64_t> catalogue(int64_t count) {
  std::map<std::string, int64_t> images;
  for (int64_t i = 0; i < count; ++i) images.emplace(text_of(sample_image(kFormat, i)), i);
  EXPECT_EQ(std::ssize(images), count) << "images that look alike";
  return images;
}

class UnevenTest : public SharedFolderTest {
 protected:
  /// The images that all ranks together read, slot by slot, in `steps` steps.
  std::vector<int64_t> read(const Sizes& sizes, int64_t count, int64_t steps) {
    on_rank_0([&] {
      std::filesystem::remove_all(folder_ / "set");
      write_sample_set(folder_ / "set", kFormat, true, sizes.shards);
    });
    Dataset set = Dataset::open(comm(), folder_ / "set");
    const auto known = catalogue(count);
    const ImageOrder order(count, 11,
                           {.shuffle = sizes.shuffle, .block_images = sizes.block, .pool_images = sizes.pool});
    const auto layout = layout::BatchLayout::make(kGlobal, sizes.micro, comm().size());
    std::vector<int64_t> slots(static_cast<std::size_t>(steps * kGlobal));
    std::optional<BatchLoader> loader;
    loader.emplace(
        set, order,
        BatchLoaderOptions{.layout = layout, .rank = comm().rank(), .end_step = steps, .prefetch = sizes.prefetch});
    for (int64_t i = 0; i < steps * layout.accumulation_steps(); ++i) {
      const MicroBatch batch = loader->next();
      for (int64_t p = 0; p < batch.positions.size(); ++p) {
        const auto image = std::span(batch.values[0]).subspan(static_cast<std::size_t>(p) * kFormat.bytes());
        const auto found = known.find(text_of(image.first(kFormat.bytes())));
        EXPECT_NE(found, known.end());
        if (found == known.end()) continue;
        EXPECT_EQ(labels_of(batch)[static_cast<std::size_t>(p)], sample_label(found->second));
        slots[static_cast<std::size_t>(batch.step * kGlobal + batch.positions.begin + p)] = found->second + 1;
      }
    }
    loader.reset();
    set.close(comm());
    comm::all_reduce(comm(), std::span(slots), comm::ReduceOp::sum);
    return slots;
  }

  /// Reads `epochs` epochs and what is left of the last step.
  void expect_every_image_once_per_epoch(const Sizes& sizes, int64_t epochs) {
    int64_t count = 0;
    for (const int64_t shard : sizes.shards) count += shard;
    const std::vector<int64_t> slots = read(sizes, count, (epochs * count + kGlobal - 1) / kGlobal);
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      std::vector<int64_t> images(slots.begin() + epoch * count, slots.begin() + (epoch + 1) * count);
      std::ranges::sort(images);
      for (int64_t i = 0; i < count; ++i) EXPECT_EQ(images[static_cast<std::size_t>(i)], i + 1) << "epoch " << epoch;
    }
  }
};

/// 37 images: after 12 epochs (37 steps of 12) every border between epochs has fallen on every place of a batch.
TEST_F(UnevenTest, ThirtySevenImagesInFiveShards) {
  const std::vector<int64_t> shards = {11, 1, 0, 20, 5};
  for (const Shuffle shuffle : {Shuffle::block, Shuffle::full, Shuffle::none}) {
    expect_every_image_once_per_epoch({.shards = shards, .shuffle = shuffle}, 12);
  }
  for (const auto& [block, pool] : {std::pair<int64_t, int64_t>{5, 12}, {7, 3}, {1, 10}, {36, 37}, {38, 38}}) {
    expect_every_image_once_per_epoch(
        {.shards = shards, .block = block, .pool = pool, .micro = kGlobal / comm().size()}, 12);
  }
}

TEST_F(UnevenTest, FewerShardsThanRanksAndMoreShardsThanImages) {
  expect_every_image_once_per_epoch({.shards = {37}, .block = 4, .pool = 10}, 3);
  expect_every_image_once_per_epoch({.shards = {1, 0, 0, 1, 0, 1, 0, 0, 2, 0, 0}, .block = 2, .pool = 3}, 12);
}

TEST_F(UnevenTest, SetsSmallerThanABatch) {
  for (const int64_t count : {1, 5, 11}) {
    for (const int64_t prefetch : {0, 1, 50}) {
      expect_every_image_once_per_epoch({.shards = {count / 2, count - count / 2},
                                         .block = 2,
                                         .pool = 3,
                                         .micro = kGlobal / comm().size(),
                                         .prefetch = prefetch},
                                        13);
    }
  }
}

}  // namespace
}  // namespace ddpm::data
