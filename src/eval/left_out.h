// Numbers of several sample sets, and the error of their mean or difference where the sets share units.
//
// Two sets that are held against the same data are off together where the data is: in the mean of both that error stays
// what it is, and in their difference it cancels so far as both depend alike on each datum. So what a number is without
// each unit in turn is kept, and added up before anything is squared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/estimate.h"

namespace ddpm::eval {

/// A number of one sample set, and what it is with each unit left out in turn.
struct LeftOut {
  double whole = 0.0;
  std::vector<double> without = {};         ///< units of the set; of fewer than two the error is not known
  std::vector<double> without_shared = {};  ///< units of the data, which all sets share; empty: none
};

/// The mean of the numbers without each of them in turn; empty for fewer than two.
std::vector<double> means_without(std::span<const double> numbers);

/// The sets of one model, whose mean enters a sum with a sign.
struct Side {
  std::vector<LeftOut> sets;
  double sign = 1.0;

  [[nodiscard]] double value() const;
};

/// The sum of the sides' means, with its error over units, sets and shared units. `same_units`: unit u is the same one,
/// such as a condition, in all sets; otherwise sets are independent. `units` is what the estimate says that it is over.
/// `further` is a further part of the variance.
Estimate combine(std::span<const Side> sides, bool same_units, int64_t units, const VarianceTerm& further = {});
/// The number of one set with its error.
Estimate estimate_of(const LeftOut& number, int64_t units);

}  // namespace ddpm::eval
