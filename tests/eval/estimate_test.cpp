// Intervals and verdicts against numbers that SciPy and NumPy give; the calls stand beside them.
#include "eval/estimate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "eval/left_out.h"

namespace ddpm::eval {
namespace {

const std::vector<double> kNumbers = {0.3, -1.2, 2.5, 0.9, 1.1, -0.4, 3.0, 0.2};

/// Numbers of the same units: a[i] and b[i] are of unit i.
Comparison paired(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> differences = a;
  for (std::size_t i = 0; i < a.size(); ++i) differences[i] -= b[i];
  return compare(mean_of(a).value, mean_of(b).value, mean_of(differences));
}

TEST(Estimate, TheJackknifeOfAMeanIsItsUsualError) {
  std::vector<double> left_out;
  left_out.reserve(kNumbers.size());
  double sum = 0.0;
  for (const double x : kNumbers) sum += x;
  for (const double x : kNumbers) left_out.push_back((sum - x) / 7.0);
  const Estimate mean = mean_of(kNumbers);
  const Estimate jackknifed = jackknife(sum / 8.0, left_out);
  // numpy.mean, numpy.std(ddof=1) / 8 ** 0.5, scipy.stats.t.interval(0.95, 7, mean, error)
  EXPECT_NEAR(mean.value, 0.8, 1e-14);
  EXPECT_NEAR(mean.standard_error, 0.4978525312350464, 1e-12);
  EXPECT_NEAR(mean.low, -0.377234169075245, 1e-9);
  EXPECT_NEAR(mean.high, 1.977234169075245, 1e-9);
  EXPECT_NEAR(jackknifed.standard_error, mean.standard_error, 1e-14);
  EXPECT_EQ(mean.units, 8);
}

TEST(Estimate, OneUnitHasNoInterval) {
  const std::vector<double> one = {2.0};
  EXPECT_TRUE(std::isnan(mean_of(one).standard_error));
  EXPECT_EQ(mean_of(one).method, Method::none);
  for (const double other : {3.0, 2.0}) {
    const Comparison comparison = paired(one, std::vector<double>{other});
    EXPECT_EQ(comparison.verdict, Verdict::unknown);
    EXPECT_TRUE(std::isnan(comparison.p_value));
  }
}

// statsmodels.stats.proportion.proportion_confint(4, 4, method="wilson") and (0, 4).
TEST(Estimate, AShareOfAllOrNoneHasAnInterval) {
  const Estimate all = share_of(std::vector<double>(4, 1.0));
  EXPECT_EQ(all.value, 1.0);
  EXPECT_NEAR(all.low, 0.5101091635454027, 1e-12);
  EXPECT_EQ(all.high, 1.0);
  EXPECT_GT(all.standard_error, 0.0);
  const Estimate none = share_of(std::vector<double>(4, 0.0));
  EXPECT_EQ(none.low, 0.0);
  EXPECT_NEAR(none.high, 0.4898908364545973, 1e-12);
  EXPECT_EQ(none.method, Method::wilson);
  const std::vector<double> some = {0.0, 1.0, 1.0, 1.0};
  EXPECT_EQ(share_of(some).standard_error, mean_of(some).standard_error);
  EXPECT_EQ(share_of(std::vector<double>{1.0}).method, Method::none);
}

/// Wilson's interval in NumPy, with n = min(units, p (1 - p) / error²) and scipy.stats.t.ppf(0.975, degrees):
/// s = q² / n; (p + s / 2 -+ sqrt(s p (1 - p) + s² / 4)) / (1 + s).
TEST(Estimate, AShareStaysBetweenZeroAndOne) {
  const Estimate most = share_of(std::vector<double>{0.0, 1.0, 1.0, 1.0});
  EXPECT_NEAR(most.low, 0.13068958274668202, 1e-9);
  EXPECT_NEAR(most.high, 0.9835703241564517, 1e-9);
  EXPECT_EQ(most.method, Method::wilson);
  // Three sets of 50 that all count: scipy.stats.binomtest(150, 150).proportion_ci(0.95, "wilson").
  const Estimate all = share_of(std::vector<double>(50, 1.0));
  const Estimate sets = wilson(over_sets(std::vector<Estimate>{all, all, all}));
  EXPECT_NEAR(sets.low, 0.9750297556319235, 1e-12);
  EXPECT_EQ(sets.high, 1.0);
  EXPECT_EQ(sets.sets, 3);
  // Two sets whose shares are further apart than their 40 samples tell: 0.9 and 0.7.
  std::vector<double> a(40, 1.0);
  std::vector<double> b = a;
  std::fill_n(a.begin(), 4, 0.0);
  std::fill_n(b.begin(), 12, 0.0);
  const Estimate apart = wilson(over_sets(std::vector<Estimate>{share_of(a), share_of(b)}));
  EXPECT_NEAR(apart.low, 0.057928943686420986, 1e-8);
  EXPECT_NEAR(apart.high, 0.9961715225958985, 1e-8);
}

TEST(Estimate, SetsThatDifferMoreThanTheirErrorsWidenTheInterval) {
  Estimate a{.value = 1.0, .standard_error = 0.1, .low = 0.8, .high = 1.2, .degrees = 20.0, .units = 21};
  Estimate b = a;
  b.value = 3.0;
  const std::vector<Estimate> apart = {a, b};
  EXPECT_NEAR(over_sets(apart).standard_error, 1.0, 1e-14);  // |3 - 1| / 2
  EXPECT_NEAR(over_sets(apart).high, 2.0 + 12.706204736432095, 1e-8);
  const std::vector<Estimate> alike = {a, a};
  EXPECT_NEAR(over_sets(alike).standard_error, 0.1 / std::numbers::sqrt2, 1e-14);
  EXPECT_EQ(over_sets(alike).units, 42);
  for (Estimate* one : {&a, &b}) {
    one->standard_error = 5.0;
    one->method = Method::subsets;
  }
  const std::vector<Estimate> of_subsets = {a, b};  // how far subsets scatter is no error of their mean
  EXPECT_NEAR(over_sets(of_subsets).standard_error, 1.0, 1e-14);
}

TEST(Estimate, AMeanOfSharesOfAllIsAShareOfAllAlsoWhereItIsRounded) {
  double mean = 0.0;
  for (int set = 0; set < 6; ++set) mean += 1.0 / 6.0;
  ASSERT_LT(mean, 1.0);
  const Estimate rounded{.value = mean, .standard_error = 0.0, .low = mean, .high = mean, .degrees = 5.0, .units = 60};
  // scipy.stats.binomtest(60, 60).proportion_ci(0.95, "wilson")
  EXPECT_NEAR(wilson_at_ends(rounded).low, 0.9398281478579101, 1e-12);
  EXPECT_EQ(wilson_at_ends(rounded).value, 1.0);
  const Estimate most{.value = 0.99, .standard_error = 0.01, .low = 0.97, .high = 1.01, .degrees = 5.0, .units = 60};
  EXPECT_EQ(wilson_at_ends(most).high, 1.01);
  EXPECT_EQ(wilson_at_ends(most).method, Method::jackknife);
}

/// How far the mean of some numbers lies above that of the data, which all sets are held against.
LeftOut above(const std::vector<double>& numbers, const std::vector<double>& data) {
  LeftOut gap{.whole = mean_of(numbers).value - mean_of(data).value};
  for (const double mean : means_without(numbers)) gap.without.push_back(mean - mean_of(data).value);
  for (const double mean : means_without(data)) gap.without_shared.push_back(mean_of(numbers).value - mean);
  return gap;
}

TEST(LeftOut, TheErrorOfSharedDataStaysInAMeanAndCancelsInADifference) {
  const std::vector<double> data = {0.1, 1.9, -0.7, 0.8};
  const std::vector<double> other = {0.6, -1.5, 2.2, 0.6, 1.4, -0.1, 3.3, -0.1};  // the mean of kNumbers
  const auto variance = [](const std::vector<double>& numbers) {
    const double error = mean_of(numbers).standard_error;
    return error * error;
  };
  const double of_samples = variance(kNumbers) + variance(other);
  const auto error = [](const std::vector<Side>& sides) { return combine(sides, false, 8).standard_error; };
  const LeftOut a = above(kNumbers, data);
  const LeftOut b = above(other, data);
  EXPECT_NEAR(error({{.sets = {a}}}), std::sqrt(variance(kNumbers) + variance(data)), 1e-14);
  EXPECT_NEAR(error({{.sets = {a, b}}}), std::sqrt(of_samples / 4.0 + variance(data)), 1e-14);
  EXPECT_NEAR(error({{.sets = {a}}, {.sets = {b}, .sign = -1.0}}), std::sqrt(of_samples), 1e-14);
  // Two ways in opposite directions: the data's error counts twice.
  EXPECT_NEAR(error({{.sets = {a}}, {.sets = {b}}}), std::sqrt(of_samples + 4.0 * variance(data)), 1e-14);
}

TEST(Comparison, IsATestOfThePairs) {
  const std::vector<double> b = {0.9, -0.1, 2.9, 1.6, 1.2, 0.4, 3.9, 0.7};
  const Comparison comparison = paired(kNumbers, b);
  // scipy.stats.ttest_rel(a, b).pvalue
  EXPECT_NEAR(comparison.p_value, 0.0006699846606157063, 1e-12);
  EXPECT_EQ(comparison.verdict, Verdict::a);
  EXPECT_EQ(paired(b, kNumbers).verdict, Verdict::b);
  EXPECT_EQ(paired(b, b).verdict, Verdict::none);
}

TEST(Comparison, ThereIsNoVerdictOnWhatIsNotFinite) {
  const double infinite = HUGE_VAL;
  const double unknown = std::nan("");
  const Estimate difference{.value = infinite, .standard_error = unknown, .low = unknown, .high = unknown};
  const Comparison comparison = compare(infinite, 1.0, difference);
  EXPECT_TRUE(std::isnan(comparison.p_value));
  EXPECT_EQ(comparison.verdict, Verdict::unknown);
  // It is none of those that Holm's factors count.
  std::vector<Comparison> comparisons = {comparison, {}, {}};
  comparisons[1].p_value = 0.02;
  comparisons[2].p_value = 0.5;
  decide(comparisons);
  EXPECT_EQ(comparisons[0].verdict, Verdict::unknown);
  EXPECT_TRUE(std::isnan(comparisons[0].p_adjusted));
  EXPECT_DOUBLE_EQ(comparisons[1].p_adjusted, 0.04);
}

TEST(Comparison, VerdictsAreThoseOfHolm) {
  std::vector<Comparison> comparisons(3);
  comparisons[0].p_value = 0.02;
  comparisons[1].p_value = 0.001;
  comparisons[2].p_value = 0.03;
  for (Comparison& one : comparisons) one.difference.value = -1.0;
  decide(comparisons);
  // statsmodels.stats.multitest.multipletests(p, method="holm")
  EXPECT_NEAR(comparisons[0].p_adjusted, 0.04, 1e-15);
  EXPECT_NEAR(comparisons[1].p_adjusted, 0.003, 1e-15);
  EXPECT_NEAR(comparisons[2].p_adjusted, 0.04, 1e-15);
  EXPECT_EQ(comparisons[2].verdict, Verdict::a);
  comparisons[2].p_value = 0.6;
  decide(comparisons);
  EXPECT_EQ(comparisons[2].verdict, Verdict::none);
}

}  // namespace
}  // namespace ddpm::eval
