#include "data/radial_spectrum.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpm::data {
namespace {

using testing::Each;
using testing::ElementsAre;

/// A wave of amplitude 1 with whole numbers of cycles along each axis.
std::vector<double> wave(const std::vector<int64_t>& sides, const std::vector<double>& cycles) {
  std::vector<double> phases = {0.0};
  for (std::size_t axis = 0; axis < sides.size(); ++axis) {
    std::vector<double> next;
    for (const double phase : phases) {
      for (int64_t i = 0; i < sides[axis]; ++i) {
        next.push_back(phase + cycles[axis] * static_cast<double>(i) / static_cast<double>(sides[axis]));
      }
    }
    phases = next;
  }
  for (double& phase : phases) phase = std::cos(2.0 * std::numbers::pi * phase);
  return phases;
}

/// The power of the wave, which is one half, lies in its ring.
void expect_in_ring(const std::vector<int64_t>& sides, const std::vector<double>& cycles, std::size_t ring) {
  RadialSpectrum spectrum(sides);
  const std::vector<double> values = wave(sides, cycles);
  const std::span<const double> power = spectrum.power(values);
  for (std::size_t r = 0; r < power.size(); ++r) {
    const auto modes = static_cast<double>(spectrum.modes()[r]);
    const double wanted = r + 1 == ring ? 0.5 * static_cast<double>(values.size()) / modes : 0.0;
    EXPECT_NEAR(power[r], wanted, 1e-12 * static_cast<double>(values.size())) << "ring " << r + 1;
  }
}

TEST(RadialSpectrum, AWaveLiesInTheRingOfItsLength) {
  expect_in_ring({32, 32}, {0, 5}, 5);
  expect_in_ring({32, 32}, {3, 4}, 5);
  expect_in_ring({33, 31}, {2, 0}, 2);
  expect_in_ring({16, 64}, {2, 0}, 8);  // 2 cycles along the short side are 8 along the long one
  expect_in_ring({16, 64}, {1, 3}, 5);
  expect_in_ring({8, 12, 12}, {0, 1, 2}, 2);
  expect_in_ring({8, 12, 12}, {2, 0, 0}, 3);
}

TEST(RadialSpectrum, RingsReachToWavesOfTwoPixels) {
  EXPECT_EQ(RadialSpectrum({64, 64}).rings(), 32U);
  EXPECT_EQ(RadialSpectrum({10, 33}).rings(), 16U);
  EXPECT_EQ(RadialSpectrum({1, 1}).rings(), 0U);
  EXPECT_THAT(RadialSpectrum({4, 4}).modes(), ElementsAre(8, 6));  // and the corner (2, 2)
}

TEST(RadialSpectrum, OneBrightPixelIsFlat) {
  for (const auto& sides : {std::vector<int64_t>{12, 20}, {9, 7}, {4, 6, 10}}) {
    RadialSpectrum spectrum(sides);
    const auto pixels = std::accumulate(sides.begin(), sides.end(), int64_t{1}, std::multiplies<>());
    std::vector<double> values(static_cast<std::size_t>(pixels), -1.0 / static_cast<double>(pixels));
    values[17] += 1.0;
    EXPECT_THAT(spectrum.power(values), Each(testing::DoubleNear(1.0 / static_cast<double>(pixels), 1e-12)));
  }
}

}  // namespace
}  // namespace ddpm::data
