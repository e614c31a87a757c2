#include "eval/measured.h"

#include <array>
#include <cmath>

#include "eval/same_rows.h"

namespace ddpm::eval {
namespace {

/// The best value of a number.
double best_of(const Measured& m) {
  if (m.best == Best::reference) return m.metric.reference.value_or(0.0);
  return m.best == Best::one ? 1.0 : 0.0;
}

/// What the shortfall grows with: the number, or its opposite where it lies below the best value.
double slope_of(const Measured& m) {
  if (m.best == Best::least || m.best == Best::nobody) return 1.0;
  const double value = m.metric.estimate.value;
  return (m.best == Best::one ? value > 1.0 : value >= best_of(m)) ? 1.0 : -1.0;
}

/// Compares numbers whose errors are partly those of units that A and B share.
Comparison compare_shared(const Measured& a, const Measured& b, bool same_units) {
  const double of_a = slope_of(a);
  const double of_b = slope_of(b);
  const std::array sides = {Side{.sets = a.sets, .sign = of_a}, Side{.sets = b.sets, .sign = -of_b}};
  const bool same = same_units && !a.over_data;
  const int64_t units = a.metric.estimate.units + (a.over_data || same ? 0 : b.metric.estimate.units);
  VarianceTerm reference = a.reference;
  reference.variance *= (of_a - of_b) * (of_a - of_b);
  Estimate difference = combine(sides, same, units, reference);
  if (of_a != of_b) {
    for (double* each : {&difference.value, &difference.low, &difference.high}) *each -= (of_a - of_b) * best_of(a);
  }
  return compare(shortfall(a).estimate.value, shortfall(b).estimate.value, difference);
}

/// Compares numbers of independent samples by their ways to a value of the data, or to a constant.
Comparison compare_apart(const Measured& a, const Measured& b) {
  const auto side = [](const Measured& m) { return m.metric.estimate.value < m.metric.reference ? -1.0 : 1.0; };
  // |a - r| - |b - r| does not depend on r where a and b are on one side of it, and otherwise twice.
  VarianceTerm shared = a.reference;
  shared.variance *= (side(a) - side(b)) * (side(a) - side(b));
  return compare_independent(shortfall(a).estimate, shortfall(b).estimate, shared);
}

}  // namespace

Metric shortfall(const Measured& measured) {
  Metric metric = measured.metric;
  switch (measured.best) {
    case Best::reference:
      metric.name += "_gap";
      metric.estimate.value = std::abs(metric.estimate.value - metric.reference.value_or(0.0));
      break;
    case Best::one:
      metric.name += "_gap";
      metric.estimate.value = std::abs(1.0 - metric.estimate.value);
      break;
    case Best::least:
    case Best::nobody:
      break;
  }
  return metric;
}

Measured together(const std::vector<const Measured*>& sets, bool same_units) {
  Measured mean = *sets.front();
  if (sets.size() == 1) return mean;
  const auto n = static_cast<double>(sets.size());
  std::vector<Estimate> each;
  Side side;
  double reference = 0.0;  // one of the data is the same for each set
  double variance = 0.0;
  int64_t units = 0;
  const bool same = same_units && !mean.over_data;
  for (const Measured* set : sets) {
    each.push_back(set->metric.estimate);
    side.sets.insert(side.sets.end(), set->sets.begin(), set->sets.end());
    reference += set->metric.reference.value_or(0.0) / n;
    const double error = set->metric.reference_error.value_or(0.0);
    variance += error * error / n;
    units = mean.over_data || same ? each.front().units : units + each.back().units;
  }
  mean.metric.estimate = side.sets.empty() ? over_sets(each) : combine(std::span(&side, 1), same, units);
  if (mean.share) mean.metric.estimate = wilson(mean.metric.estimate);
  if (mean.metric.reference) mean.metric.against(reference, std::sqrt(variance));
  mean.sets = std::move(side.sets);
  return mean;
}

Comparison compare(const Measured& a, const Measured& b, bool same_units) {
  const Metric of_a = shortfall(a);
  Comparison comparison = a.sets.empty() ? compare_apart(a, b) : compare_shared(a, b, same_units);
  comparison.metric = of_a.name;
  comparison.variable = of_a.variable;
  comparison.level = of_a.level_text();
  return comparison;
}

std::vector<std::vector<const Measured*>> same_numbers(std::span<const std::vector<Measured>> lists) {
  std::vector<std::vector<RowName>> names;
  for (const std::vector<Measured>& list : lists) {
    names.emplace_back();
    for (const Measured& each : list) names.back().push_back(row_name(each.metric));
  }
  std::vector<std::vector<const Measured*>> numbers;
  for (const std::vector<std::size_t>& places : same_rows(names)) {
    numbers.emplace_back();
    for (std::size_t i = 0; i < places.size(); ++i) numbers.back().push_back(&lists[i][places[i]]);
  }
  return numbers;
}

}  // namespace ddpm::eval
