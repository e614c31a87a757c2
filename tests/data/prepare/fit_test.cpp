#include "data/prepare/fit.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

/// Pixel values tell where they came from: x + 10 y.
Image grid(int width, int height) {
  Image image(width, height, 1);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) image.row(y)[static_cast<std::size_t>(x)] = static_cast<uint8_t>(x + 10 * y);
  }
  return image;
}

TEST(Fit, AnImageOfTheRightSizeIsNotTouched) {
  const Image image = grid(8, 8);
  for (const Crop crop : {Crop::center, Crop::random, Crop::none}) {
    EXPECT_EQ(fit(image, {{8, 8}, crop, 1}, 0).pixels, image.pixels);
  }
}

TEST(Fit, CenterCropCutsTheLongerSide) {
  EXPECT_EQ(fit(grid(9, 4), {{4, 4}, Crop::center, 0}, 0).pixels[0], 2);   // 5 too many: 2 at the left
  EXPECT_EQ(fit(grid(4, 8), {{4, 4}, Crop::center, 0}, 0).pixels[0], 20);  // 2 at the top
  const Image half = fit(grid(24, 8), {{4, 4}, Crop::center, 0}, 0);       // 12 x 4, of which columns 4 to 8 stay
  ASSERT_EQ(half.width, 4);
  ASSERT_EQ(half.height, 4);
  EXPECT_NEAR(half.row(1)[1], 10.5 + 25.0, 1.0);  // around (10.5, 2.5)
}

TEST(Fit, NoneSquashes) {
  const Image image = fit(grid(16, 4), {{4, 4}, Crop::none, 0}, 0);
  ASSERT_EQ(image.width, 4);
  ASSERT_EQ(image.height, 4);
  EXPECT_NEAR(image.row(0)[1], 5.5, 0.51);  // columns 4 to 8
  EXPECT_NEAR(image.row(3)[2], 39.5, 0.51);
}

TEST(Fit, ARectangleIsCoveredAndNotMore) {
  EXPECT_EQ(fit(grid(9, 4), {{4, 6}, Crop::center, 0}, 0).pixels[0], 1);  // 3 columns too many: 1 at the left
  EXPECT_EQ(fit(grid(6, 9), {{4, 6}, Crop::center, 0}, 0).pixels[0], 20);
  const Image shrunk = fit(grid(12, 24), {{2, 4}, Crop::center, 0}, 0);  // 4 x 8, of which rows 3 and 4 stay
  ASSERT_EQ(shrunk.width, 4);
  ASSERT_EQ(shrunk.height, 2);
  const Image squashed = fit(grid(8, 8), {{2, 4}, Crop::none, 0}, 0);
  ASSERT_EQ(squashed.width, 4);
  ASSERT_EQ(squashed.height, 2);
  for (int side = 1; side <= 40; ++side) {  // whatever is rounded, the window lies within
    const Image odd = fit(grid(side, 7), {{5, 13}, Crop::random, 1}, static_cast<uint64_t>(side));
    EXPECT_EQ(odd.width, 13);
    EXPECT_EQ(odd.height, 5);
  }
}

TEST(Fit, RandomCropIsAFunctionOfSeedAndIndexAndReachesEveryPlace) {
  const Image wide = grid(9, 4);
  std::set<int> offsets;
  for (uint64_t index = 0; index < 200; ++index) {
    const int offset = fit(wide, {{4, 4}, Crop::random, 5}, index).pixels[0];
    EXPECT_EQ(fit(wide, {{4, 4}, Crop::random, 5}, index).pixels[0], offset);
    offsets.insert(offset);
  }
  EXPECT_EQ(offsets, (std::set<int>{0, 1, 2, 3, 4, 5}));
  int changed = 0;
  for (uint64_t index = 0; index < 50; ++index) {
    changed += fit(wide, {{4, 4}, Crop::random, 5}, index).pixels != fit(wide, {{4, 4}, Crop::random, 6}, index).pixels
                   ? 1
                   : 0;
  }
  EXPECT_GT(changed, 25);
}

TEST(Fit, AVeryLongImageCostsNoMoreThanItsWindow) {
  Image strip(60000, 1, 1);  // 4096 high it would be 1 TB
  std::fill(strip.pixels.begin(), strip.pixels.end(), uint8_t{9});
  const Image image = fit(strip, {{4096, 4096}, Crop::center, 0}, 0);
  EXPECT_EQ(image.width, 4096);
  EXPECT_EQ(image.height, 4096);
  EXPECT_EQ(image.row(4095)[4095], 9);
}

}  // namespace
}  // namespace ddpm::data::prepare
