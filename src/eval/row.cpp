#include "eval/row.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace ddpm::eval {
namespace {

Statistic difference(const Row& row) {
  return [a = row.value, b = row.reference](Sums samples, Sums data) { return a(samples, data) - b(samples, data); };
}

void compare_into(Result& result, const Evidence& evidence, const std::vector<Row>& rows) {
  std::vector<Statistic> distances;
  std::vector<const Metric*> names;
  for (const Row& row : rows) {
    if (!row.distance || (row.by_count && !evidence.of_one_size())) continue;
    distances.push_back(row.distance);
    names.push_back(&row.metric);
  }
  const std::vector<Difference> found = differences_of(evidence, distances);
  for (std::size_t k = 0; k < found.size(); ++k) {
    Comparison comparison = compare(found[k].a, found[k].b, found[k].difference);
    if (found[k].certain) comparison.p_value = 0.0;
    comparison.metric = names[k]->name;
    comparison.variable = names[k]->variable;
    comparison.level = names[k]->level_text();
    result.comparisons.push_back(std::move(comparison));
  }
}

}  // namespace

void estimate_into(Result& result, const Evidence& evidence, const std::vector<Row>& rows) {
  // The value of each row, then the reference and the difference of those that have one.
  std::vector<Statistic> asked;
  asked.reserve(rows.size());
  for (const Row& row : rows) asked.push_back(row.value);
  for (const Row& row : rows) {
    if (!row.reference) continue;
    asked.push_back(row.reference);
    asked.push_back(difference(row));
  }
  const std::vector<Estimate> found = estimates_of(evidence, asked);
  std::size_t next = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Metric metric = rows[i].metric;
    metric.estimate = found[i];
    if (rows[i].share) metric.estimate = wilson_at_ends(found[i]);
    if (rows[i].exact) {
      metric.against(*rows[i].exact);
      const double least =
          rows[i].unit_deviation / std::sqrt(static_cast<double>(std::max<int64_t>(metric.estimate.units, 1)));
      if (least > metric.estimate.standard_error) metric.sigmas = (metric.estimate.value - *rows[i].exact) / least;
    }
    if (rows[i].reference) {
      const Estimate& reference = found[next];
      const Estimate& off = found[next + 1];
      next += 2;
      metric.reference = reference.value;
      metric.reference_error = reference.standard_error;
      const double error = std::hypot(off.standard_error, rows[i].share ? error_at_ends(found[i]) : 0.0);
      if (error > 0.0) metric.sigmas = off.value / error;
    }
    result.metrics.push_back(std::move(metric));
  }
  if (!evidence.b.empty()) compare_into(result, evidence, rows);
}

}  // namespace ddpm::eval
