// The calls of SciPy whose numbers are wanted stand beside them.
#include "base/probability.h"

#include <cmath>

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(Probability, IsThatOfScipy) {
  // scipy.stats.t.sf(t, n) * 2
  EXPECT_NEAR(student_p_value(2.0, 5.0), 0.10193947882985828, 1e-13);
  EXPECT_NEAR(student_p_value(-0.3, 1.0), 0.8144528418445154, 1e-13);
  EXPECT_NEAR(student_p_value(12.0, 200.0) / 2.42213600524666e-25, 1.0, 1e-10);
  EXPECT_NEAR(student_p_value(1.96, HUGE_VAL), 0.04999579029644087, 1e-13);
  EXPECT_EQ(student_p_value(0.0, 3.0), 1.0);
  // scipy.stats.t.ppf(0.975, n)
  EXPECT_NEAR(student_quantile(0.95, 1.0), 12.706204736432095, 1e-9);
  EXPECT_NEAR(student_quantile(0.95, 9.0), 2.2621571628540993, 1e-9);
  EXPECT_NEAR(student_quantile(0.95, 999.0), 1.9623414611334487, 1e-9);
}

TEST(Probability, NormalQuantilesAreThoseOfScipy) {
  // scipy.stats.norm.ppf(p)
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(normal_quantile(1.0 / 256.0), -2.6600674686174597, 1e-13);
  EXPECT_NEAR(normal_quantile(1e-10), -6.361340902404056, 1e-12);
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  EXPECT_EQ(normal_quantile(0.25), -normal_quantile(0.75));
}

}  // namespace
}  // namespace ddpm::base
