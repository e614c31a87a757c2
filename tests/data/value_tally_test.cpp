#include "data/value_tally.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpm::data {
namespace {

using testing::ElementsAre;

/// Both sweeps over values that come as images of `per_image`.
SecondTally tally(const std::vector<float>& values, std::size_t bins, std::size_t per_image) {
  const auto each = [&](auto add) {
    for (std::size_t at = 0; at < values.size(); at += per_image) {
      add(std::span(values).subspan(at, std::min(per_image, values.size() - at)));
    }
  };
  FirstTally first;
  each([&](auto some) { first.add(some); });
  SecondTally second(first, Histogram::between(first.min, first.max, bins));
  each([&](auto some) { second.add(some); });
  return second;
}

TEST(Histogram, BinsHoldTheirLowerEdgeAndTheLastOneItsUpperToo) {
  const Histogram h = Histogram::between(-1.0, 2.0, 3);
  EXPECT_EQ(h.edge(0), -1.0);
  EXPECT_EQ(h.edge(3), 2.0);
  for (const auto& [value, bin] :
       {std::pair{-1.0, 0U}, {std::nextafter(0.0, -1.0), 0U}, {0.0, 1U}, {1.0, 2U}, {2.0, 2U}}) {
    EXPECT_EQ(h.bin(value), bin) << value;
  }
}

TEST(Histogram, EachValueLiesBetweenTheEdgesOfItsBin) {
  const Histogram h = Histogram::between(0.1, 0.7, 37);
  for (std::size_t i = 0; i < 37; ++i) {
    for (const double x : {h.edge(i), std::nextafter(h.edge(i), 1.0), std::nextafter(h.edge(i + 1), 0.0)}) {
      const std::size_t bin = h.bin(x);
      EXPECT_GE(x, h.edge(bin));
      EXPECT_LT(x, h.edge(bin + 1));
    }
  }
}

TEST(Histogram, OneValueHasWidthOnBothSides) {
  for (const double value : {0.0, 5.0, -3e38, 1e-40}) {
    const Histogram h = Histogram::between(value, value, 64);
    EXPECT_EQ(h.bin(value), 32U);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_LT(h.edge(i), h.edge(i + 1));
  }
}

TEST(ValueTally, QuantilesAreValuesOfTheSet) {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 617 % 1000) - 500.0F;
  EXPECT_THAT(tally(values, 10, 7).quantiles(), ElementsAre(-491, -451, -251, -1, 249, 449, 489));
  EXPECT_THAT(tally({3.0F}, 10, 1).quantiles(), ElementsAre(3, 3, 3, 3, 3, 3, 3));
  EXPECT_THAT(tally({-0.0F, 2.0F}, 10, 1).quantiles(), ElementsAre(0, 0, 0, 0, 2, 2, 2));
}

TEST(ValueTally, QuantilesAreCutToSixteenBits) {
  const float fine = 1.0F + 0x1.0p-15F + 0x1.0p-20F;
  EXPECT_EQ(tally({fine}, 1, 1).quantiles().front(), 1.0 + 0x1.0p-15);
  EXPECT_EQ(tally({-fine}, 1, 1).quantiles().front(), -1.0 - 0x1.0p-15);
}

TEST(ValueTally, NothingOverflows) {
  const std::vector<float> values = {-3e38F, 3e38F, 3e38F, 1e-45F};
  const SecondTally second = tally(values, 4, 2);
  const Moments m = moments_of(1.5e38 / 2, second.mean_powers());
  EXPECT_TRUE(std::isfinite(m.std));
  EXPECT_TRUE(std::isfinite(m.kurtosis));
  EXPECT_EQ(second.count(), 4);
}

TEST(ValueTally, OneValueHasNoShape) {
  const std::vector<float> values(100, 0.1F);
  const Moments m = moments_of(double{0.1F}, tally(values, 4, 7).mean_powers());
  EXPECT_EQ(m.mean, double{0.1F});
  EXPECT_EQ(m.std, 0.0);
  EXPECT_TRUE(std::isnan(m.skewness));
  EXPECT_TRUE(std::isnan(m.kurtosis));
}

}  // namespace
}  // namespace ddpm::data
