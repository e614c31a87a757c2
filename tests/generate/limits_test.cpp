#include "generate/limits.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>

#include "base/error.h"
#include "generate/gaussian_field.h"
#include "generate/gray_scott.h"
#include "generate/ising.h"
#include "generate/phi4.h"
#include "generate/su2.h"
#include "generate/u1.h"

namespace ddpm::generate {
namespace {

using testing::HasSubstr;

/// What `make` is refused by, "" where it is not.
std::string refusal(const std::function<void()>& make) {
  try {
    make();
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ExpectGrid, TakesSidesAndSamplesUpToTheLimits) {
  constexpr GridLimits kFlat = {.least = 2, .most = 16384, .most_axes = 2, .channels = 1};
  EXPECT_EQ(refusal([&] { expect_grid({2, 16384}, kFlat, "given"); }), "");
  EXPECT_EQ(refusal([&] { expect_grid({8192, 8192}, kFlat, "given"); }), "");
  EXPECT_THAT(refusal([&] {
                expect_grid({8192, 8193}, kFlat, "given");
              }),
              HasSubstr("--size given: more than 67108864 numbers in a sample"));
  EXPECT_THAT(refusal([&] {
                expect_grid({8, 1}, kFlat, "8x1");
              }),
              HasSubstr("--size 8x1: a side of 1, wanted 2 to 16384"));
  EXPECT_THAT(refusal([&] { expect_grid({16385, 8}, kFlat, "given"); }), HasSubstr("a side of 16385"));
  EXPECT_THAT(refusal([&] { expect_grid({8, 8, 8}, kFlat, "given"); }), HasSubstr("3 sides, wanted height and width"));
  EXPECT_THAT(refusal([&] { expect_grid({8}, kFlat, "given"); }), HasSubstr("1 sides"));
  GridLimits channels = kFlat;
  channels.channels = 2;
  EXPECT_THAT(refusal([&] { expect_grid({8192, 8192}, channels, "given"); }), HasSubstr("more than 67108864"));
}

TEST(ExpectValues, TakesOneToAThousandInTheirRange) {
  EXPECT_EQ(refusal([] { expect_values({0.0, 10.0}, kIsingBeta); }), "");
  EXPECT_THAT(refusal([] { expect_values({}, kIsingBeta); }), HasSubstr("--beta: no value"));
  EXPECT_THAT(refusal([] { expect_values({1.0, 10.5}, kIsingBeta); }), HasSubstr("--beta 10.5: wanted 0 to 10"));
  EXPECT_THAT(refusal([] { expect_values({std::nan("")}, kIsingBeta); }), HasSubstr("wanted 0 to 10"));
  EXPECT_EQ(refusal([] { expect_values(std::vector(1000, 1.0), kIsingBeta); }), "");
  EXPECT_THAT(refusal([] { expect_values(std::vector(1001, 1.0), kIsingBeta); }), HasSubstr("more than 1000 values"));
}

// They are refused before anything is allocated or computed.
TEST(Generators, RefuseWhatTheCommandWouldNotPassOn) {
  const std::vector<int64_t> huge(2, 16384);
  EXPECT_THAT(refusal([&] { GaussianField(huge, {3.0}, 1); }), HasSubstr("--size 16384x16384"));
  EXPECT_THAT(refusal([&] { GaussianField({8, 8}, {30.0}, 1); }), HasSubstr("--slope 30"));
  EXPECT_THAT(refusal([&] { Ising(huge, {0.4}, 50, 1); }), HasSubstr("--size 16384x16384"));
  EXPECT_THAT(refusal([] { Ising({2, 8}, {0.4}, 50, 1); }), HasSubstr("a side of 2, wanted 3"));
  EXPECT_THAT(refusal([] { Ising({8, 8}, {-0.1}, 50, 1); }), HasSubstr("--beta -0.1"));
  EXPECT_THAT(refusal([] { Ising({8, 8}, {0.4}, 1, 1); }), HasSubstr("--sweeps 1: wanted 2"));
  EXPECT_THAT(refusal([] { Phi4({2, 8}, {0.1}, 0.1, 10, 1); }), HasSubstr("a side of 2"));
  EXPECT_THAT(refusal([] { Phi4({8, 8}, {0.1, 0.0}, 0.0, 10, 1); }), HasSubstr("--mass-squared 0.1,0: the free field"));
  EXPECT_THAT(refusal([] { Phi4({8, 8}, {0.1}, -0.1, 10, 1); }), HasSubstr("--lambda -0.1"));
  EXPECT_THAT(refusal([] { Phi4({8, 8}, {0.1}, 0.1, 0, 1); }), HasSubstr("--trajectories 0"));
  EXPECT_THAT(refusal([] { U1({4, 4, 4}, {1.0}, Gauge::random, 1); }), HasSubstr("3 sides"));
  EXPECT_THAT(refusal([] { U1Vectors({4, 4}, {101.0}, Gauge::random, 1); }), HasSubstr("--beta 101"));
  EXPECT_THAT(refusal([] { Su2({4096, 4096}, {1.0}, Gauge::random, 1); }), HasSubstr("--size 4096x4096: more than"));
}

TEST(GaugeGenerator, CountsTheNumbersOfBothLinks) {
  EXPECT_EQ(U1::kGrid.channels, 2);
  EXPECT_EQ(U1Vectors::kGrid.channels, 4);
  EXPECT_EQ(Su2::kGrid.channels, 8);
}

TEST(GrayScott, RefusesRatesOutsideTheirRangeAndStepsThatAreNotStable) {
  const auto refused = [](const std::function<void(GrayScottOptions&)>& change) {
    GrayScottOptions options{.sides = {8, 8, 8}, .diffusion_u = 0.1, .diffusion_v = 0.05};
    change(options);
    return refusal([&] { GrayScott(options, 1); });
  };
  EXPECT_EQ(refused([](GrayScottOptions& /*options*/) {}), "");
  EXPECT_THAT(refused([](GrayScottOptions& o) { o.sides = {8, 2}; }), HasSubstr("--size 8x2: a side of 2"));
  EXPECT_THAT(refused([](GrayScottOptions& o) { o.feed = 0.21; }), HasSubstr("--feed 0.21: wanted 0 to 0.2"));
  EXPECT_THAT(refused([](GrayScottOptions& o) { o.kill = -0.1; }), HasSubstr("--kill -0.1"));
  EXPECT_THAT(refused([](GrayScottOptions& o) { o.diffusion_v = 0.3; }), HasSubstr("--diffusion-v 0.3: wanted 0 to"));
  EXPECT_THAT(refused([](GrayScottOptions& o) { o.diffusion_u = 0.2; }), HasSubstr("--diffusion-u 0.2: the steps"));
  EXPECT_THAT(refused([](GrayScottOptions& o) { o.steps = -1; }), HasSubstr("--steps -1"));
}

}  // namespace
}  // namespace ddpm::generate
