#include "eval/left_out.h"

#include <algorithm>

namespace ddpm::eval {
namespace {

double weight(const Side& side) { return side.sign / static_cast<double>(side.sets.size()); }

void add_weighted(std::vector<double>& sum, const std::vector<double>& values, double weight) {
  sum.resize(std::max(sum.size(), values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += weight * values[i];
}

/// How the number differs between the sets of a side.
VarianceTerm between_sets(const Side& side) {
  std::vector<double> values;
  for (const LeftOut& set : side.sets) values.push_back(set.whole);
  const Estimate mean = mean_of(values);
  return {.variance = mean.standard_error * mean.standard_error, .degrees = mean.degrees};
}

/// The error of the mean over independent sets: what lies between them holds what lies within them, too.
VarianceTerm of_independent_sets(const Side& side) {
  VarianceTerm within;
  for (const LeftOut& set : side.sets) {
    const VarianceTerm term = jackknife_variance(set.without);
    within.variance += weight(side) * weight(side) * term.variance;
    within.degrees += term.degrees;
  }
  if (side.sets.size() < 2) return within;
  const VarianceTerm between = between_sets(side);
  return within.variance > between.variance ? within : between;
}

}  // namespace

std::vector<double> means_without(std::span<const double> numbers) {
  if (numbers.size() < 2) return {};
  const auto n = static_cast<double>(numbers.size());
  const double mean = mean_of(numbers).value;
  std::vector<double> means;
  for (const double number : numbers) means.push_back(mean + (mean - number) / (n - 1.0));
  return means;
}

double Side::value() const {
  double sum = 0.0;
  for (const LeftOut& set : sets) sum += weight(*this) * set.whole;
  return sum;
}

Estimate combine(std::span<const Side> sides, bool same_units, int64_t units, const VarianceTerm& further) {
  double value = 0.0;
  std::vector<double> without;
  std::vector<double> without_shared;
  std::vector<VarianceTerm> terms;
  int64_t sets = 0;
  for (const Side& side : sides) {
    value += side.value();
    sets = std::max(sets, std::ssize(side.sets));
    for (const LeftOut& set : side.sets) {
      if (same_units) add_weighted(without, set.without, weight(side));
      add_weighted(without_shared, set.without_shared, weight(side));
    }
    if (!same_units) terms.push_back(of_independent_sets(side));
    if (same_units && side.sets.size() > 1) terms.push_back(between_sets(side));
  }
  if (same_units) terms.push_back(jackknife_variance(without));
  if (!without_shared.empty()) terms.push_back(jackknife_variance(without_shared));
  if (further.variance > 0.0) terms.push_back(further);
  Estimate estimate = estimate_of(value, terms, units);
  estimate.sets = sets;
  return estimate;
}

Estimate estimate_of(const LeftOut& number, int64_t units) {
  const Side side{.sets = {number}};
  return combine(std::span(&side, 1), /*same_units=*/false, units);
}

}  // namespace ddpm::eval
