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

/// The share of values below the data's quantile, or up to it.
double share_under(const MarginalSums& at, std::size_t share, bool with_equal, Sums sums) {
  const double equal = sums[at.equal(share)];
  const double beyond = sums[at.beyond(share)];
  const double below = kShares[share] < 0.5 ? beyond : sums[at.count()] - beyond - equal;
  return (with_equal ? below + equal : below) / sums[at.count()];
}

/// The samples' share.
Statistic share_of_samples(const VariableSums& variable, std::size_t share, bool with_equal) {
  return [share, with_equal, x = variable.samples](Sums samples, Sums /*data*/) {
    return share_under(x, share, with_equal, samples);
  };
}

/// By how much more of the data than of the samples lies there: above 0 where the samples' quantile is the larger one.
Statistic share_moved(const VariableSums& variable, std::size_t share, bool with_equal) {
  return [share, with_equal, x = variable.samples, y = variable.data, apart = variable.data_apart](Sums samples,
                                                                                                   Sums data) {
    return share_under(y, share, with_equal, apart ? data : samples) - share_under(x, share, with_equal, samples);
  };
}

/// The samples' share on one side of the data's quantile, and by how much more of the data lies there.
struct Moved {
  Estimate samples;
  Estimate difference;
};

/// For each share those below and those up to the data's quantile.
std::vector<Moved> shares_moved(const VariableSums& variable, const Evidence& evidence) {
  std::vector<Statistic> statistics;
  for (std::size_t s = 0; s < kShares.size(); ++s) {
    for (const bool with_equal : {false, true}) {
      statistics.push_back(share_of_samples(variable, s, with_equal));
      statistics.push_back(share_moved(variable, s, with_equal));
    }
  }
  const std::vector<Estimate> found = estimates_of(evidence, statistics);
  std::vector<Moved> moved;
  for (std::size_t i = 0; i < found.size(); i += 2) moved.push_back({.samples = found[i], .difference = found[i + 1]});
  return moved;
}

/// A difference in standard errors; nothing without an error. Where none or all of the samples lie on one side, their
/// share does not scatter, and has the error of wilson().
std::optional<double> sigmas_of(const Moved& moved) {
  const Estimate& difference = moved.difference;
  if (std::isnan(difference.standard_error)) return std::nullopt;
  if (difference.value == 0.0) return 0.0;
  return difference.value / std::hypot(difference.standard_error, error_at_ends(moved.samples));
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
  const std::vector<Moved> moved = shares_moved(variable, evidence);
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
    row.reference = reference.value;
    if (reference.standard_error > 0.0) row.reference_error = reference.standard_error;
    // Where many values are equal, those at the quantile count with the side from which the samples have come.
    row.sigmas = sigmas_of(moved[2 * s + (row.estimate.value > reference.value ? 1 : 0)]);
    if (row.sigmas && row.estimate.value == reference.value) row.sigmas = 0.0;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ddpm::eval
