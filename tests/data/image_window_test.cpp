// Which part of each field a window of an image needs.
#include "data/image_window.h"

#include <cmath>

#include <gmock/gmock.h>

namespace ddpm::data {
namespace {

using testing::ElementsAre;

/// Whether the coarse pixels on both sides of each of the window's pixels are read.
bool holds_what_is_needed(const CoarseAxis& axis, int64_t begin, int64_t extent) {
  const int64_t fine = axis.side * axis.factor;
  const int64_t read_from = axis.begin(begin, extent);
  const int64_t read = axis.extent(extent);
  if (read_from < 0 || read_from >= axis.side || read > axis.side) return false;
  if (!axis.wraps && read_from + read > axis.side) return false;
  for (int64_t i = 0; i < extent; ++i) {
    const double place = (static_cast<double>((begin + i) % fine) + 0.5) / static_cast<double>(axis.factor) - 0.5;
    const double before = std::floor(place);
    for (const double wanted : {before, place > before ? before + 1 : before}) {
      const auto pixel = std::clamp<int64_t>(static_cast<int64_t>(wanted), 0, axis.side - 1);
      if ((pixel - read_from + axis.side) % axis.side >= read) return false;
    }
  }
  return true;
}

TEST(CoarseAxis, HoldsTheNeighboursOfEveryPixelOfAWindow) {
  for (const int64_t factor : {1, 2, 3, 4, 5, 8}) {
    for (const int64_t side : {1, 2, 3, 7, 12}) {
      for (const bool wraps : {false, true}) {
        const CoarseAxis axis{.side = side, .factor = factor, .wraps = wraps};
        for (int64_t extent = 1; extent <= side * factor; ++extent) {
          const int64_t places = wraps ? side * factor : side * factor - extent + 1;
          for (int64_t begin = 0; begin < places; ++begin) {
            ASSERT_TRUE(holds_what_is_needed(axis, begin, extent))
                << side << " × " << factor << ", window of " << extent << " at " << begin << ", wraps: " << wraps;
          }
        }
      }
    }
  }
}

TEST(CoarseAxis, IsNotMuchMoreThanTheWindow) {
  EXPECT_EQ((CoarseAxis{.side = 1000, .factor = 1}).extent(64), 64);
  EXPECT_EQ((CoarseAxis{.side = 1000, .factor = 8}).extent(64), 10);
  EXPECT_EQ((CoarseAxis{.side = 9, .factor = 8}).extent(64), 9);
}

/// Windows begin in each of 32 × 32 cells of a large field equally often, and at its borders as elsewhere.
TEST(DrawnPlaces, LieEverywhereEquallyOften) {
  constexpr int64_t kSide = 16384;
  constexpr int64_t kCells = 32;
  constexpr int64_t kDraws = 200000;
  const WindowPlaces places = drawn_places({kSide, kSide}, 7, base::Stream::patch);
  std::vector<double> seen(kCells * kCells);
  std::vector<double> at_border(2);  // the first and the last 64 rows
  for (int64_t i = 0; i < kDraws; ++i) {
    const std::vector<int64_t> begin = places(i / 16, i % 16);
    ++seen[static_cast<std::size_t>(begin[0] * kCells / kSide * kCells + begin[1] * kCells / kSide)];
    if (begin[0] < 64) ++at_border[0];
    if (begin[0] >= kSide - 64) ++at_border[1];
  }
  const double wanted = static_cast<double>(kDraws) / (kCells * kCells);
  double chi_squared = 0.0;
  for (const double times : seen) chi_squared += std::pow(times - wanted, 2) / wanted;
  const double freedom = kCells * kCells - 1;
  EXPECT_NEAR(chi_squared, freedom, 4 * std::sqrt(2 * freedom));
  const double at_one = static_cast<double>(kDraws) * 64 / kSide;
  for (const double times : at_border) EXPECT_NEAR(times, at_one, 4 * std::sqrt(at_one));
}

ImageWindows windows() {
  return {.whole = {.height = 24, .width = 36, .channels = 2, .dtype = base::DType::f32},
          .sides = {6, 8},
          .wraps = {true, false},
          .place = drawn_places({24, 29}, 3, base::Stream::patch)};
}

TEST(ImageWindows, GiveFieldsTheShapeOfWhatIsRead) {
  const Field image = make_field(FieldRole::image, "/images", {24, 36, 2}, base::DType::f32, false);
  const Field coarse = make_field(FieldRole::condition, "/condition", {8, 12, 3}, base::DType::f32, false);
  const Field mask = make_field(FieldRole::mask, "/mask", {24, 36}, base::DType::u8, false);
  const Field numbers = make_field(FieldRole::parameters, "/parameters", {5}, base::DType::f32, false);
  EXPECT_THAT(windows().read_of(image).shape, ElementsAre(6, 8, 2));
  EXPECT_THAT(windows().read_of(coarse).shape, ElementsAre(4, 5, 3));
  EXPECT_THAT(windows().read_of(mask).shape, ElementsAre(6, 8));
  EXPECT_THAT(windows().read_of(numbers).shape, ElementsAre(5));
  EXPECT_EQ(windows().block_bytes({image, coarse, mask, numbers}), 6 * 8 * 2 * 4 + 4 * 5 * 3 * 4 + 6 * 8);
}

TEST(ImageWindows, AreReadOfLargeImagesOnly) {
  const auto square = [](int64_t side) {
    return ImageFormat{.height = side, .width = side, .channels = 1, .dtype = base::DType::f32};
  };
  EXPECT_FALSE(is_worth_windows(square(511), square(64), false));
  EXPECT_TRUE(is_worth_windows(square(512), square(64), false));
  EXPECT_FALSE(is_worth_windows(square(512), square(500), false));
  EXPECT_FALSE(is_worth_windows(square(2047), square(64), true));
  EXPECT_TRUE(is_worth_windows(square(2048), square(64), true));
}

}  // namespace
}  // namespace ddpm::data
