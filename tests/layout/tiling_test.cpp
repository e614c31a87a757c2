#include "layout/tiling.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::layout {
namespace {

TEST(Tiling, TilesCoverEveryPixelOnce) {
  const std::vector<int64_t> sides = {8, 20, 12};
  const Tiling tiling(sides, {2, 3, 1}, 4);
  ASSERT_EQ(tiling.count(), 6);
  std::multiset<std::vector<int64_t>> seen;
  for (int64_t tile = 0; tile < tiling.count(); ++tile) {
    for (int64_t z = tiling.pixels(tile, 0).begin; z < tiling.pixels(tile, 0).end; ++z) {
      for (int64_t y = tiling.pixels(tile, 1).begin; y < tiling.pixels(tile, 1).end; ++y) {
        for (int64_t x = tiling.pixels(tile, 2).begin; x < tiling.pixels(tile, 2).end; ++x) seen.insert({z, y, x});
      }
    }
  }
  EXPECT_EQ(seen.size(), 8U * 20U * 12U);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size());
}

TEST(Tiling, PartsAreMultiplesOfTheUnitAndTheFirstOnesAreLarger) {
  const Tiling tiling({20}, {3}, 4);
  EXPECT_EQ(tiling.pixels(0, 0), (Range{0, 8}));
  EXPECT_EQ(tiling.pixels(1, 0), (Range{8, 16}));
  EXPECT_EQ(tiling.pixels(2, 0), (Range{16, 20}));
}

TEST(Tiling, NeighboursGoAroundEachAxis) {
  const Tiling tiling({8, 8}, {2, 4}, 2);
  EXPECT_EQ(tiling.coordinate(6, 0), 1);
  EXPECT_EQ(tiling.coordinate(6, 1), 2);
  EXPECT_EQ(tiling.beside(6, 1, 1), 7);
  EXPECT_EQ(tiling.beside(7, 1, 1), 4);
  EXPECT_EQ(tiling.beside(4, 1, -1), 7);
  EXPECT_EQ(tiling.beside(6, 0, 1), 2);
  EXPECT_EQ(tiling.beside(2, 0, -1), 6);
}

TEST(Tiling, RefusesWithTheNumbers) {
  EXPECT_EQ(Tiling::refusal({32, 32}, {2, 4}, 8), "");
  EXPECT_EQ(Tiling::refusal({32, 32}, {2}, 8),
            "parallel.spatial_size = [2] for images of 32 × 32 pixels; wanted: a number for each axis");
  EXPECT_EQ(
      Tiling::refusal({32, 48}, {1, 7}, 8),
      "parallel.spatial_size = [1, 7] cuts a side of 48 pixels into 7 parts; the model halves images, so that parts "
      "are multiples of 8 pixels: there can be 1 to 6");
  EXPECT_THROW(Tiling({16}, {3}, 8), base::ConfigError);
}

}  // namespace
}  // namespace ddpm::layout
