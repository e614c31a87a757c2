#include "eval/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/probability.h"

namespace ddpm::eval {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double squares_about(std::span<const double> numbers, double centre) {
  double sum = 0.0;
  for (const double x : numbers) sum += (x - centre) * (x - centre);
  return sum;
}

double p_value_of(const Estimate& difference) {
  if (!std::isfinite(difference.value) || std::isnan(difference.standard_error)) return kNaN;
  if (difference.value == 0.0) return 1.0;
  return base::student_p_value(std::abs(difference.value) / difference.standard_error, difference.degrees);
}

}  // namespace

Estimate estimate_of(double value, std::span<const VarianceTerm> terms, int64_t units) {
  double variance = 0.0;
  double weight = 0.0;
  bool known = true;
  for (const VarianceTerm& term : terms) {
    known = known && term.degrees > 0.0 && std::isfinite(term.variance);
    variance += term.variance;
    weight += term.variance * term.variance / term.degrees;
  }
  Estimate result{.value = value, .units = units};
  if (!known || terms.empty()) {
    result.standard_error = result.low = result.high = kNaN;
    result.method = Method::none;
    return result;
  }
  const double least = std::ranges::min(terms, {}, &VarianceTerm::degrees).degrees;
  result.degrees = weight > 0.0 ? std::max(variance * variance / weight, least) : least;
  result.standard_error = std::sqrt(variance);
  const double reach = base::student_quantile(kLevel, result.degrees) * result.standard_error;
  result.low = value - reach;
  result.high = value + reach;
  return result;
}

VarianceTerm jackknife_variance(std::span<const double> left_out) {
  const auto n = static_cast<double>(left_out.size());
  if (left_out.size() < 2) return {.variance = kNaN, .degrees = 0.0};
  return {.variance = (n - 1.0) / n * squares_about(left_out, mean(left_out)), .degrees = n - 1.0};
}

Estimate jackknife(double value, std::span<const double> left_out) {
  const VarianceTerm term = jackknife_variance(left_out);
  return estimate_of(value, std::span(&term, 1), std::ssize(left_out));
}

Estimate mean_of(std::span<const double> numbers) {
  DDPM_CHECK(!numbers.empty(), "the mean of no numbers");
  const auto n = static_cast<double>(numbers.size());
  const double value = mean(numbers);
  VarianceTerm term{.variance = kNaN, .degrees = 0.0};
  if (numbers.size() > 1) {
    term = {.variance = squares_about(numbers, value) / (n - 1.0) / n, .degrees = n - 1.0};
  }
  return estimate_of(value, std::span(&term, 1), std::ssize(numbers));
}

Estimate wilson(Estimate share) {
  constexpr double kNormal = 1.959963984540054;  // a normal distribution's quantile for kLevel
  if (share.units < 2 || std::isnan(share.standard_error)) return share;
  const bool none = share.value <= 0.0;
  const bool all = share.value >= 1.0;
  const double scatter = share.value * (1.0 - share.value);
  double count = static_cast<double>(share.units);
  if (!none && !all && share.standard_error > 0.0) {
    count = std::min(count, scatter / (share.standard_error * share.standard_error));
  }
  const double quantile = none || all ? kNormal : base::student_quantile(kLevel, share.degrees);
  const double square = quantile * quantile / count;
  const double middle = (share.value + 0.5 * square) / (1.0 + square);
  const double reach = std::sqrt(square * scatter + 0.25 * square * square) / (1.0 + square);
  share.low = none ? 0.0 : std::max(middle - reach, 0.0);
  share.high = all ? 1.0 : std::min(middle + reach, 1.0);
  if (none || all) share.standard_error = (share.high - share.low) / (2.0 * kNormal);
  share.method = Method::wilson;
  return share;
}

Estimate wilson_at_ends(const Estimate& share) {
  constexpr double kRounded = 1e-12;  // so much a mean of ones over several sets may be off
  const double end = share.value < 0.5 ? 0.0 : 1.0;
  if (!(std::abs(share.value - end) < kRounded)) return share;
  Estimate whole = share;
  whole.value = end;
  return wilson(whole);
}

double error_at_ends(const Estimate& share) {
  const Estimate whole = wilson_at_ends(share);
  return whole.method == Method::wilson ? whole.standard_error : 0.0;
}

Estimate share_of(std::span<const double> numbers) { return wilson(mean_of(numbers)); }

Estimate over_sets(std::span<const Estimate> sets) {
  DDPM_CHECK(!sets.empty(), "no sample sets");
  if (sets.size() == 1) return sets.front();
  const auto n = static_cast<double>(sets.size());
  std::vector<double> values;
  VarianceTerm within;
  int64_t units = 0;
  for (const Estimate& set : sets) {
    values.push_back(set.value);
    const bool is_error = set.method != Method::subsets;  // the deviation of subsets is none
    if (is_error) within.variance += set.standard_error * set.standard_error / (n * n);
    within.degrees += set.degrees;
    units += set.units;
  }
  const VarianceTerm between{.variance = squares_about(values, mean(values)) / (n - 1.0) / n, .degrees = n - 1.0};
  const VarianceTerm term = within.variance > between.variance ? within : between;
  Estimate result = estimate_of(mean(values), std::span(&term, 1), units);
  result.sets = std::ssize(sets);
  return result;
}

Comparison compare(double a, double b, const Estimate& difference) {
  Comparison result{.metric = {}, .a = a, .b = b, .difference = difference, .p_value = p_value_of(difference)};
  decide(std::span(&result, 1));
  return result;
}

Comparison compare_independent(const Estimate& a, const Estimate& b, const VarianceTerm& shared) {
  std::vector<VarianceTerm> terms = {
      {.variance = a.standard_error * a.standard_error, .degrees = a.degrees},
      {.variance = b.standard_error * b.standard_error, .degrees = b.degrees},
  };
  if (shared.variance > 0.0) terms.push_back(shared);
  return compare(a.value, b.value, estimate_of(a.value - b.value, terms, a.units + b.units));
}

void decide(std::span<Comparison> comparisons) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    comparisons[i].p_adjusted = comparisons[i].p_value;
    comparisons[i].verdict = Verdict::unknown;
    if (!std::isnan(comparisons[i].p_value)) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return comparisons[i].p_value; });
  double adjusted = 0.0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    Comparison& one = comparisons[order[place]];
    adjusted = std::max(adjusted, one.p_value * static_cast<double>(order.size() - place));
    one.p_adjusted = std::min(adjusted, 1.0);
    one.verdict = one.p_adjusted >= 1.0 - kLevel ? Verdict::none : one.difference.value < 0.0 ? Verdict::a : Verdict::b;
  }
}

}  // namespace ddpm::eval
