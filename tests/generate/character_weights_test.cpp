#include "generate/character_weights.h"

#include <cmath>

#include <gtest/gtest.h>

namespace ddpm::generate {
namespace {

TEST(LogBesselRatios, AreThoseOfTheStandardLibrary) {
  for (const double x : {0.05, 1.0, 7.5, 100.0}) {
    for (const std::size_t first : {0U, 1U}) {
      const std::vector<double> logarithms = log_bessel_ratios(x, first);
      ASSERT_GT(logarithms.size(), 2U);
      EXPECT_LT(logarithms.back(), std::log(1e-18));
      for (std::size_t i = 0; i < logarithms.size(); ++i) {
        const auto order = static_cast<double>(first + i);
        const double wanted = std::log(std::cyl_bessel_i(order, x) / std::cyl_bessel_i(static_cast<double>(first), x));
        EXPECT_NEAR(logarithms[i], wanted, 1e-10) << "order " << order << " at " << x;
      }
    }
  }
}

}  // namespace
}  // namespace ddpm::generate
