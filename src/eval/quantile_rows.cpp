#include "eval/quantile_rows.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/probability.h"

namespace ddpm::eval {
namespace {

/// A quantile by the error of the share of values up to it.
Estimate woodruff(const Distribution& values, double share, const Estimate& of_share) {
  Estimate result = of_share;
  result.value = values.quantile(share);
  if (of_share.method == Method::none) return result;
  const double error = of_share.standard_error;
  const double reach = base::student_quantile(kLevel, of_share.degrees) * error;
  result.low = values.quantile(share - reach);
  result.high = values.quantile(share + reach);
  result.standard_error = 0.5 * (values.quantile(share + error) - values.quantile(share - error));
  return result;
}

std::vector<Statistic> shares_up_to(const MarginalSums& at) {
  std::vector<Statistic> statistics;
  for (std::size_t s = 0; s < kShares.size(); ++s) {
    statistics.emplace_back([at, s](std::span<const double> sums, std::span<const double> /*data*/) {
      return sums[at.up_to(s)] / sums[at.count()];
    });
  }
  return statistics;
}

}  // namespace

std::vector<Metric> quantile_rows(const QuantileSource& source, const Evidence& evidence) {
  const VariableSums& variable = *source.variable;
  std::vector<std::vector<Estimate>> shares;
  for (const BlockSums& set : evidence.a) shares.push_back(estimates_of(set, shares_up_to(variable.samples)));
  const BlockSums& of_data = variable.data_apart ? *evidence.data : evidence.a.front();
  const std::vector<Estimate> data_shares = estimates_of(of_data, shares_up_to(variable.data));
  std::vector<Metric> rows;
  for (std::size_t s = 0; s < kShares.size(); ++s) {
    std::vector<Estimate> of_sets;
    for (std::size_t set = 0; set < shares.size(); ++set) {
      of_sets.push_back(woodruff(*source.sets[set], kShares[s], shares[set][s]));
    }
    const Estimate reference = woodruff(*source.data, kShares[s], data_shares[s]);
    Metric row{.name = "quantile", .variable = variable.name, .level = {}, .unit = variable.unit, .estimate = {}};
    row.level = fmt::format("{:.6g} %", 100.0 * kShares[s]);
    row.estimate = over_sets(of_sets);
    row.against(reference.value, reference.standard_error);
    rows.push_back(std::move(row));
  }
  return rows;
}

void add_rank_test(std::vector<Metric>& metrics, std::size_t first) {
  double away = 0.0;
  double errors = 0.0;
  double ranks = 0.0;
  Metric row{.name = "rank_chi2", .level = {}, .estimate = {}};
  for (std::size_t i = first; i < metrics.size(); ++i) {
    const Metric& share = metrics[i];
    if (share.name != "rank_share") continue;
    const double off = share.estimate.value - share.reference.value_or(0.0);
    away += off * off;
    errors += share.estimate.standard_error * share.estimate.standard_error;
    ranks += 1.0;
    row.variable = share.variable;
    row.estimate = share.estimate;
  }
  // Without scatter, as where the truth lies beyond all members everywhere, any deviation is no chance.
  row.estimate.value = away == 0.0 ? 0.0 : (ranks - 1.0) * away / errors;
  row.estimate.standard_error = row.estimate.low = row.estimate.high = std::nan("");
  row.estimate.method = Method::none;
  row.reference = ranks - 1.0;
  row.p_value = base::chi_squared_p_value(row.estimate.value, ranks - 1.0);
  metrics.push_back(std::move(row));
}

}  // namespace ddpm::eval
