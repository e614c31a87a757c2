// Rows of a result that are more than a function of sums: quantiles, and the test of a rank histogram.
#pragma once

#include <cstddef>
#include <vector>

#include "eval/distribution.h"
#include "eval/field_rows.h"

namespace ddpm::eval {

/// All values of one variable.
struct QuantileSource {
  const VariableSums* variable = nullptr;
  const Distribution* data = nullptr;
  std::vector<const Distribution*> sets = {};  ///< values of each sample set of A
};

/// The quantiles of kShares, with Woodruff's intervals (Journal of the American Statistical Association 47, 635
/// (1952)): the share of values up to a quantile has a jackknife error, and the quantiles at the ends of its interval
/// are those of the quantile's. The reference is the data's quantile.
std::vector<Metric> quantile_rows(const QuantileSource& source, const Evidence& evidence);

/// Appends "rank_chi2" for the shares of ranks among metrics[first, end): chi-squared of a flat histogram, with the
/// correction of Rao and Scott (Journal of the American Statistical Association 76, 221 (1981)) for pixels that are not
/// independent, (ranks - 1) sum (p - 1 / ranks)² / sum error(p)². Of independent pixels it is Pearson's.
void add_rank_test(std::vector<Metric>& metrics, std::size_t first);

}  // namespace ddpm::eval
