// Windows of images that are read in place of the images: their values on any number of ranks, and what vouches for
// them.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "data/dataset.h"
#include "data/sample_bands.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "data/statistics.h"
#include "h5/file.h"

namespace ddpm::data {
namespace {

using testing::HasSubstr;
using WindowSides = std::vector<int64_t>;

constexpr ImageFormat kTall = {.height = 20, .width = 14, .channels = 3, .dtype = base::DType::f32};
constexpr int64_t kWindowsOfStep = 8;

/// A window of sample_image(), which goes around.
std::vector<std::byte> window_wanted(int64_t index, const WindowSides& begin, const WindowSides& extent) {
  const std::vector<std::byte> whole = sample_image(kTall, index);
  const std::size_t pixel = kTall.bytes() / static_cast<std::size_t>(kTall.pixels());
  std::vector<std::byte> window;
  for (int64_t y = 0; y < extent[0]; ++y) {
    for (int64_t x = 0; x < extent[1]; ++x) {
      const int64_t at = (begin[0] + y) % kTall.height * kTall.width + (begin[1] + x) % kTall.width;
      const auto from = whole.begin() + at * static_cast<int64_t>(pixel);
      window.insert(window.end(), from, from + static_cast<int64_t>(pixel));
    }
  }
  return window;
}

std::vector<std::byte> window_of(const Dataset& set, int64_t index, const WindowSides& begin,
                                 const WindowSides& extent) {
  const auto pixels = static_cast<std::size_t>(extent[0] * extent[1]);
  std::vector<std::byte> values(pixels * static_cast<std::size_t>(kTall.channels) * sizeof(float));
  set.read_window_unconfirmed(0, index, begin, extent, values);
  set.expect_unchanged();
  return values;
}

class ReadingWindows : public SharedFolderTest {
 protected:
  Dataset open_folder() {
    on_rank_0([&] { info_ = write_sample_set(folder_ / "set", kTall, false, {3, 4}); });
    return Dataset::open(comm(), folder_ / "set");
  }
  /// Flips a bit of a pixel's first channel in image 4, the second one of the second shard.
  void damage(int64_t row, int64_t column) const {
    on_rank_0([&] {
      const auto pixel = static_cast<std::size_t>(row * kTall.width + column);
      const std::size_t at = info_.shards[1].header_size + kTall.bytes() + pixel * 3 * sizeof(float);
      test::flip_bit(folder_ / "set" / info_.shards[1].file, static_cast<std::streamoff>(at));
    });
  }
  /// A bare file of one image and its mask, with nan where the mask is 0 and infinity at row 17, column 3.
  Dataset open_bare(bool masked) {
    const Path path = folder_ / "bare.h5";
    on_rank_0([&] {
      base::posix_file_system()->create_exclusive(path)->close();
      h5::File file = h5::File::create(path, {});
      h5::Array images = file.create_array("/images", h5::Element::f32, std::vector<int64_t>{1, 20, 14, 3});
      h5::Array mask = file.create_array("/mask", h5::Element::u8, std::vector<int64_t>{1, 20, 14});
      std::vector<std::byte> values = sample_image(kTall, 0);
      std::vector<uint8_t> valid(20 * 14, 1);
      const auto put = [&](std::size_t row, std::size_t column, float value) {
        std::memcpy(&values[(row * 14 + column) * 3 * sizeof(float)], &value, sizeof(value));
      };
      put(2, 13, std::numeric_limits<float>::quiet_NaN());
      put(17, 3, std::numeric_limits<float>::infinity());
      valid[2 * 14 + 13] = 0;
      images.write_rows(0, 1, values);
      mask.write_rows(0, 1, std::as_bytes(std::span(valid)));
      images.close();
      mask.close();
      file.close();
    });
    DatasetOptions options;
    if (masked) options.mask = "/mask";
    return Dataset::open(comm(), path, options);
  }

  DatasetInfo info_;  // on rank 0
};

TEST_F(ReadingWindows, GivesTheValuesOfTheImages) {
  const Dataset set = open_folder();
  for (const auto& [begin, extent] : std::vector<std::pair<WindowSides, WindowSides>>{
           {{0, 0}, {20, 14}}, {{3, 5}, {4, 6}}, {{19, 13}, {1, 1}}, {{18, 11}, {5, 7}}, {{7, 9}, {20, 14}}}) {
    for (const int64_t index : {0, 2, 3, 6})
      EXPECT_EQ(window_of(set, index, begin, extent), window_wanted(index, begin, extent));
  }
}

/// What all ranks read together does not depend on their number, since every window is compared with its own place.
TEST_F(ReadingWindows, TheLoaderReadsTheWindowOfEachPosition) {
  const Dataset set = open_folder();
  const ImageOrder order(7, 5, {.shuffle = Shuffle::block, .block_images = 2, .pool_images = 4});
  const ImageWindows windows{
      .whole = kTall, .sides = {6, 4}, .wraps = {true, false}, .place = drawn_places({20, 11}, 3, base::Stream::patch)};
  for (const int64_t prefetch : {0, 2}) {
    const BatchLoaderOptions options{.layout = layout::BatchLayout::make(kWindowsOfStep, 2, comm().size()),
                                     .rank = comm().rank(),
                                     .end_step = 5,
                                     .prefetch = prefetch,
                                     .windows = windows};
    BatchLoader loader(set, order, options);
    for (int64_t i = 0; i < 5 * options.layout.accumulation_steps(); ++i) {
      const MicroBatch batch = loader.next();
      ASSERT_TRUE(batch.windows);
      const std::size_t bytes = batch.values[0].size() / 2;
      for (int64_t p = 0; p < batch.positions.size(); ++p) {
        const int64_t index = batch.indices[static_cast<std::size_t>(p)];
        EXPECT_EQ(index, order.image(batch.step * kWindowsOfStep + batch.positions.begin + p));
        const WindowSides begin = windows.place(batch.step, batch.positions.begin + p);
        const auto first = batch.values[0].begin() + p * static_cast<int64_t>(bytes);
        EXPECT_EQ(std::vector<std::byte>(first, first + static_cast<int64_t>(bytes)),
                  window_wanted(index, begin, windows.sides));
      }
    }
  }
}

TEST_F(ReadingWindows, ADamagedImageIsRefusedWithItsFirstWindowWhereverTheDamageIs) {
  const Dataset set = open_folder();
  damage(19, 13);
  EXPECT_THAT(refusal([&] {
                return window_of(set, 4, {0, 0}, {2, 2});
              }),
              HasSubstr("image 1 (number 4 of the dataset) is damaged: its CRC-32C is"));
  EXPECT_EQ(window_of(set, 3, {0, 0}, {2, 2}), window_wanted(3, {0, 0}, {2, 2}));
}

TEST_F(ReadingWindows, AFileThatChangesAfterItsImagesWereComparedIsRefused) {
  const Dataset set = open_folder();
  EXPECT_EQ(window_of(set, 4, {0, 0}, {2, 2}), window_wanted(4, {0, 0}, {2, 2}));
  damage(1, 1);
  EXPECT_THAT(refusal([&] {
                return window_of(set, 4, {0, 0}, {2, 2});
              }),
              HasSubstr("it was changed since it was opened"));
  EXPECT_THAT(refusal([&] { return set.expect_unchanged(), 0; }), HasSubstr("it was changed since it was opened"));
}

TEST_F(ReadingWindows, ValuesThatAreNotFiniteAreNamedByTheirPlaceInTheImage) {
  const Dataset set = open_bare(false);
  EXPECT_EQ(window_of(set, 0, {3, 0}, {14, 14}), window_wanted(0, {3, 0}, {14, 14}));
  EXPECT_THAT(refusal([&] {
                return window_of(set, 0, {15, 2}, {4, 4});
              }),
              HasSubstr("holds inf in channel 0 at row 17, column 3;"));
  EXPECT_THAT(refusal([&] {
                return window_of(set, 0, {19, 12}, {5, 5});
              }),
              HasSubstr("holds nan in channel 0 at row 2, column 13;"));
}

TEST_F(ReadingWindows, ValuesThatTheMaskLeavesOutMayBeAnything) {
  const Dataset set = open_bare(true);
  EXPECT_TRUE(std::isnan([&] {
    const auto bytes = window_of(set, 0, {2, 13}, {1, 1});
    float value = 0.0F;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }()));
  EXPECT_THAT(refusal([&] { return window_of(set, 0, {15, 2}, {8, 12}); }), HasSubstr("at row 17, column 3;"));
}

TEST_F(ReadingWindows, BandsOfRowsShowWhatTheValuesAreLike) {
  on_rank_0([&] { info_ = write_sample_set(folder_ / "one", kTall, false, {1}); });
  const Dataset set = Dataset::open(comm(), folder_ / "one");
  const std::vector<ChannelStatistics> seen = statistics_of_bands(comm(), set);
  Statistics wanted(kTall);
  wanted.add(sample_image(kTall, 0));
  ASSERT_EQ(seen.size(), 3U);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(seen[c].mean, wanted.result()[c].mean, 1e-9);
    EXPECT_NEAR(seen[c].std, wanted.result()[c].std, 1e-9);
    EXPECT_EQ(seen[c].min, wanted.result()[c].min);
    EXPECT_EQ(seen[c].max, wanted.result()[c].max);
  }
  const Dataset odd = open_bare(true);
  EXPECT_THAT(refusal([&] { return statistics_of_bands(comm(), odd); }), HasSubstr("holds inf in channel 0"));
}

}  // namespace
}  // namespace ddpm::data
