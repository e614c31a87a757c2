#include "base/exact_sum.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, LosesNothingToCancellation) {
  EXPECT_EQ(sum_of({}), 0.0);
  EXPECT_EQ(sum_of({1e300, 1.0, -1e300}), 1.0);
  EXPECT_EQ(sum_of({DBL_MAX, 4.9e-324, -DBL_MAX}), 4.9e-324);
  EXPECT_EQ(sum_of({-1e16, -1.0, 1e16, -0.5}), -1.5);
  EXPECT_EQ(sum_of({0.1, 0.2, -0.3}), std::ldexp(1.0, -55)) << "what is left of three roundings";
}

TEST(ExactSum, RoundsOnceToTheNearestAndTiesToEven) {
  const double ulp = DBL_EPSILON;  // between 1 and 2
  EXPECT_EQ(sum_of({1.0, ulp / 2}), 1.0);
  EXPECT_EQ(sum_of({1.0 + ulp, ulp / 2}), 1.0 + 2 * ulp);
  EXPECT_EQ(sum_of({1.0, ulp / 2, 4.9e-324}), 1.0 + ulp) << "far below the tie, but above it";
  EXPECT_EQ(sum_of({-1.0, -ulp / 2, -4.9e-324}), -1.0 - ulp);
  EXPECT_EQ(sum_of({1.0, ulp / 2, -4.9e-324}), 1.0);
}

TEST(ExactSum, DoublesBeyondTheGreatestAreInfinite) {
  EXPECT_EQ(sum_of({DBL_MAX, DBL_MAX}), HUGE_VAL);
  EXPECT_EQ(sum_of({-DBL_MAX, -DBL_MAX}), -HUGE_VAL);
  EXPECT_EQ(sum_of({DBL_MAX, DBL_MAX, -DBL_MAX}), DBL_MAX);
}

TEST(ExactSum, OrderAndPartsDoNotMatter) {
  std::vector<double> values;
  for (int i = 0; i < 2000; ++i) {
    const double turn = i * 0.7;
    values.push_back(std::ldexp(std::sin(turn), (i * 37) % 600 - 300));
  }
  const double forward = sum_of(values);
  std::ranges::reverse(values);
  EXPECT_EQ(sum_of(values), forward);

  ExactSum halves[2];
  for (std::size_t i = 0; i < values.size(); ++i) halves[i % 2].add(values[i]);
  const std::span<int64_t> total = halves[0].limbs();
  const std::span<int64_t> other = halves[1].limbs();
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += other[i];
  EXPECT_EQ(halves[0].value(), forward);
}

TEST(ExactSum, RefusesWhatIsNotFinite) {
  ExactSum sum;
  EXPECT_THROW(sum.add(HUGE_VAL), InternalError);
  EXPECT_THROW(sum.add(NAN), InternalError);
}

}  // namespace
}  // namespace ddpm::base
