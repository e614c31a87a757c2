// The gradient norm is exact enough, does not depend on how the buffer is cut, and shows values that are not finite.
#include "optim/clip.h"

#include <limits>

#include "golden.h"

namespace ddpm::test {
namespace {

using optim::kNormBlock;

constexpr auto kBlock = static_cast<std::size_t>(kNormBlock);

double exact_sum_of_squares(const std::vector<float>& values) {
  long double sum = 0.0L;
  for (const float value : values) sum += static_cast<long double>(value) * value;
  return static_cast<double>(sum);
}

TEST(Clip, SumOfSquaresIsExactToFloat64) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{15}, kBlock, 3 * kBlock + 17}) {
    const auto values = random_floats(count, 7);
    EXPECT_NEAR(optim::sum_of_squares(values), exact_sum_of_squares(values), 1e-13 * static_cast<double>(count));
  }
}

TEST(Clip, BlocksOfAPartAreThoseOfTheWhole) {
  const auto values = random_floats(5 * kBlock + 100, 8);
  std::vector<double> whole(6);
  optim::block_sums_of_squares(values, whole);
  for (std::size_t cut = 0; cut <= 5; ++cut) {
    std::vector<double> parts(6);
    optim::block_sums_of_squares(std::span(values).first(cut * kBlock), std::span(parts).first(cut));
    optim::block_sums_of_squares(std::span(values).subspan(cut * kBlock), std::span(parts).subspan(cut));
    EXPECT_EQ(parts, whole);
  }
}

TEST(Clip, TreeOfEqualRanksIsTheTreeOfAll) {
  // 0.1 and its like make the order of additions visible in the last bits.
  std::vector<double> values(16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1 * static_cast<double>(i * i + 1);
  const double all = optim::tree_sum(values);
  for (const std::size_t ranks : {2U, 4U, 8U, 16U}) {
    std::vector<double> of_ranks;
    const std::size_t share = values.size() / ranks;
    for (std::size_t r = 0; r < ranks; ++r) {
      of_ranks.push_back(optim::tree_sum(std::span(values).subspan(r * share, share)));
    }
    EXPECT_EQ(optim::tree_sum(of_ranks), all);
  }
}

TEST(Clip, TreeSumCarriesAnOddValueUp) {
  EXPECT_EQ(optim::tree_sum({}), 0.0);
  const std::vector<double> five = {1e16, 1.0, -1e16, 1.0, 3.0};
  EXPECT_EQ(optim::tree_sum(five), ((1e16 + 1.0) + (-1e16 + 1.0)) + 3.0);
}

TEST(Clip, SumIsFiniteExactlyWhenAllValuesAre) {
  std::vector<float> values(kBlock + 3, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(optim::sum_of_squares(values)));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{17}, kBlock + 2}) {
      auto broken = values;
      broken[place] = bad;
      EXPECT_FALSE(std::isfinite(optim::sum_of_squares(broken)));
    }
  }
}

TEST(Clip, CoefficientIsThatOfTorch) {
  EXPECT_EQ(optim::clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_EQ(optim::clip_coefficient(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(optim::clip_coefficient(0.0, 1.0), 1.0);
  EXPECT_EQ(optim::clip_coefficient(1e9, 0.0), 1.0);  // off
}

}  // namespace
}  // namespace ddpm::test
