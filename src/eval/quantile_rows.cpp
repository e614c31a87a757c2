#include "eval/quantile_rows.h"

#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

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

/// The mean of a quantile over sets with the same conditions: their quantiles have the errors of the shares up to them,
/// turned by the distributions' slopes, and go together.
Estimate over_same_units(const std::vector<LeftOut>& shares, const std::vector<Estimate>& quantiles,
                         const std::vector<Estimate>& of_shares) {
  Side side;
  for (std::size_t set = 0; set < shares.size(); ++set) {
    const double slope =
        of_shares[set].standard_error > 0.0 ? quantiles[set].standard_error / of_shares[set].standard_error : 0.0;
    LeftOut quantile{.whole = quantiles[set].value};
    for (const double share : shares[set].without) {
      quantile.without.push_back(quantile.whole - slope * (share - shares[set].whole));
    }
    side.sets.push_back(std::move(quantile));
  }
  return combine(std::span(&side, 1), /*same_units=*/true, quantiles.front().units);
}

}  // namespace

std::vector<Metric> quantile_rows(const QuantileSource& source, const Evidence& evidence) {
  const VariableSums& variable = *source.variable;
  const std::vector<Statistic> up_to = shares_up_to(variable.samples);
  std::vector<std::vector<LeftOut>> shares;
  for (const BlockSums& set : evidence.a) shares.push_back(left_out_of(set, std::nullopt, up_to));
  const BlockSums& of_data = variable.data_apart ? *evidence.data : evidence.a.front();
  const std::vector<Estimate> data_shares = estimates_of(of_data, shares_up_to(variable.data));
  std::vector<Metric> rows;
  for (std::size_t s = 0; s < kShares.size(); ++s) {
    std::vector<LeftOut> of_shares;
    std::vector<Estimate> share_errors;
    std::vector<Estimate> quantiles;
    for (std::size_t set = 0; set < shares.size(); ++set) {
      of_shares.push_back(shares[set][s]);
      share_errors.push_back(estimate_of(shares[set][s], evidence.a[set].units()));
      quantiles.push_back(woodruff(*source.sets[set], kShares[s], share_errors.back()));
    }
    const Estimate reference = woodruff(*source.data, kShares[s], data_shares[s]);
    Metric row{.name = "quantile", .variable = variable.name, .level = {}, .unit = variable.unit, .estimate = {}};
    row.level = fmt::format("{:.6g} %", 100.0 * kShares[s]);
    row.estimate = evidence.same_units && quantiles.size() > 1 ? over_same_units(of_shares, quantiles, share_errors)
                                                               : over_sets(quantiles);
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
