// A number with its interval, and what two numbers say of who is better.
//
// Nothing that `ddpm eval` measures is a number alone: it is of some samples of some model, and another draw would give
// another one. Errors are those of the delete-one jackknife (Efron, Stein, Annals of Statistics 9, 586 (1981)) over
// units that are independent of each other: samples, or conditions with all their members. Where several sample sets
// are given, of models that were trained from several seeds, the spread between them is a part of the error.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddpm::eval {

/// The level of all intervals.
inline constexpr double kLevel = 0.95;

/// How an interval was found.
enum class Method : uint8_t { jackknife, subsets, wilson, none };
constexpr auto names_of(Method /*type*/) {
  return std::to_array<std::string_view>({"jackknife", "subsets", "wilson", "none"});
}

/// A value and its interval at the level kLevel. With one unit there is no interval: error and ends are NaN.
struct Estimate {
  double value = 0.0;
  double standard_error = 0.0;
  double low = 0.0;
  double high = 0.0;
  double degrees = 0.0;  ///< degrees of freedom of Student's t
  int64_t units = 0;     ///< independent samples or conditions that it is over, of all sets
  int64_t sets = 1;      ///< sample sets, such as one of each seed
  Method method = Method::jackknife;
};

/// A part of a value's variance, and how well it is known.
struct VarianceTerm {
  double variance = 0.0;
  double degrees = 0.0;  ///< degrees of freedom
};

/// The value with the variance of independent terms: an interval of Student's t with Welch's and Satterthwaite's
/// degrees of freedom, (sum V)² / sum (V² / degrees). Terms without a degree of freedom give no interval.
Estimate estimate_of(double value, std::span<const VarianceTerm> terms, int64_t units);

/// (n - 1) / n sum (x_i - mean)² of the n values that a statistic takes when each unit is left out in turn.
VarianceTerm jackknife_variance(std::span<const double> left_out);
/// The statistic's value for all units, with the jackknife's error.
Estimate jackknife(double value, std::span<const double> left_out);
/// The mean of independent numbers: the jackknife of a mean is its usual error, s / sqrt(n).
Estimate mean_of(std::span<const double> numbers);

/// A share with the interval of Wilson (Journal of the American Statistical Association 22, 209 (1927)), which lies
/// within 0 and 1: that of as many independent units as the share's error is worth, value (1 - value) / error², but of
/// no more than its units, and with Student's quantile for the error's degrees of freedom, as surveys have it (Franco
/// and others, Journal of Survey Statistics and Methodology 7, 334 (2019)). Where none or all count, scatter tells
/// nothing: it is that of all units with a normal's quantile, and the error is what this interval's width amounts to.
/// An estimate without an interval stays as it is.
Estimate wilson(Estimate share);

/// A share of none or of all, but for rounding, with the interval and the error of wilson(); another share as it is.
Estimate wilson_at_ends(const Estimate& share);

/// The error of a share of none or of all by wilson_at_ends(), which a difference from that share leaves out, since it
/// does not scatter; 0 of another share.
double error_at_ends(const Estimate& share);

/// The share of the units that count, of numbers that are 0 or 1: as mean_of(), but for the interval of wilson().
Estimate share_of(std::span<const double> numbers);

/// The mean of one estimate for each sample set (seed). Its variance is that between the sets, divided by their number,
/// but not less than what the sets' own errors say, where they have some. One set is itself.
Estimate over_sets(std::span<const Estimate> sets);

/// What a comparison of two says. Only numbers that are distances from the best value are compared: less is better.
/// Nothing is known where a difference is not finite, such as that of a distance that is infinite, or has no error,
/// such as that of single samples.
enum class Verdict : uint8_t { none, a, b, unknown };
constexpr auto names_of(Verdict /*type*/) {
  return std::to_array<std::string_view>({"no significant difference", "A is better", "B is better", "no verdict"});
}

struct Comparison {
  std::string metric;
  std::string variable = {};
  std::string level = {};
  double a = 0.0;
  double b = 0.0;
  Estimate difference;      ///< A less B: below 0 A is better
  double p_value = 1.0;     ///< two-sided test that there is no difference; NaN: there is no test
  double p_adjusted = 1.0;  ///< Holm's, over all comparisons of one result that have a test
  Verdict verdict = Verdict::none;
};

/// Compares by the estimate of A less B.
Comparison compare(double a, double b, const Estimate& difference);
/// Compares estimates of independent samples. `shared` is a further part of the variance of their difference.
Comparison compare_independent(const Estimate& a, const Estimate& b, const VarianceTerm& shared = {});

/// Sets p_adjusted (Holm, Scandinavian Journal of Statistics 6, 65 (1979)) and the verdicts: that one of all of them
/// calls a difference where there is none has a probability of 1 - kLevel at most. Those without a test do not count.
void decide(std::span<Comparison> comparisons);

}  // namespace ddpm::eval
