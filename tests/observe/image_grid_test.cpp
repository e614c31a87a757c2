#include "observe/image_grid.h"

#include <limits>
#include <numeric>

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::observe {
namespace {

using testing::ElementsAre;

TEST(ToByte, IsTheInverseOfTheMappingOfDatasets) {
  for (int value = 0; value <= 255; ++value) {
    EXPECT_EQ(to_byte(static_cast<float>(value) / 127.5F - 1.0F), value);
  }
}

TEST(ToByte, ClampsWhatIsOutsideAndTakesNanForZero) {
  EXPECT_EQ(to_byte(-1.5F), 0);
  EXPECT_EQ(to_byte(7.0F), 255);
  EXPECT_EQ(to_byte(std::numeric_limits<float>::infinity()), 255);
  EXPECT_EQ(to_byte(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(to_byte(std::numeric_limits<float>::quiet_NaN()), 0);
}

TEST(ToChannelsLast, MovesTheChannelAxisOfEveryImage) {
  // Two images of two channels and 1 x 2 pixels.
  const std::vector<uint8_t> nchw = {1, 2, 11, 12, 3, 4, 13, 14};
  EXPECT_THAT(to_channels_last(nchw, 2, 1, 2), ElementsAre(1, 11, 2, 12, 3, 13, 4, 14));
}

TEST(ImageGrid, LaysImagesOutRowByRow) {
  // Three grey images of 1 x 2 pixels in two columns, one pixel of padding, one empty cell.
  const std::vector<uint8_t> images = {1, 2, 3, 4, 5, 6};
  const Image grid = image_grid(images, 1, 2, 1, {.columns = 2, .padding = 1, .background = 9});
  EXPECT_EQ(grid.height, 5);
  EXPECT_EQ(grid.width, 7);
  EXPECT_EQ(grid.channels, 1);
  const std::vector<uint8_t> wanted = {9, 9, 9, 9, 9, 9, 9,  //
                                       9, 1, 2, 9, 3, 4, 9,  //
                                       9, 9, 9, 9, 9, 9, 9,  //
                                       9, 5, 6, 9, 9, 9, 9,  //
                                       9, 9, 9, 9, 9, 9, 9};
  EXPECT_EQ(grid.pixels_hwc, wanted);
}

TEST(ImageGrid, IsNearlySquareByDefault) {
  struct Case {
    int64_t count, columns, rows;
  };
  for (const auto& c : {Case{1, 1, 1}, Case{2, 2, 1}, Case{4, 2, 2}, Case{5, 3, 2}, Case{16, 4, 4}, Case{17, 5, 4}}) {
    const std::vector<uint8_t> images(static_cast<std::size_t>(c.count));
    const Image grid = image_grid(images, 1, 1, 1, {.padding = 0});
    EXPECT_EQ(grid.width, c.columns) << c.count;
    EXPECT_EQ(grid.height, c.rows) << c.count;
  }
}

TEST(ImageGrid, TakesFloatImagesAsLibTorchHasThem) {
  // One RGB image of 1 x 2 pixels: red, then blue.
  const std::vector<float> nchw = {1, -1, -1, -1, -1, 1};
  const Image grid = image_grid_nchw(nchw, 3, 1, 2, {.padding = 0});
  EXPECT_THAT(grid.pixels_hwc, ElementsAre(255, 0, 0, 0, 0, 255));
}

TEST(ImageGrid, RefusesAPartOfAnImage) {
  const std::vector<uint8_t> images(5);
  EXPECT_THROW(image_grid(images, 2, 2, 1), base::InternalError);
  EXPECT_THROW(image_grid({}, 2, 2, 1), base::InternalError);
}

}  // namespace
}  // namespace ddpm::observe
