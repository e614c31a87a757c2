// Quantiles: rows of a result that are more than a function of sums.
#pragma once

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
/// are those of the quantile's. The reference is the data's quantile, and sigmas are those of the shares of samples and
/// of data up to it: their difference has an error that knows which conditions both have in common, and also where many
/// values are equal, so that a quantile seems to have none. Where none or all of the samples lie there, the error of
/// wilson() is added.
std::vector<Metric> quantile_rows(const QuantileSource& source, const Evidence& evidence);

}  // namespace ddpm::eval
