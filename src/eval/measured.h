// A number of a set of samples beside what is best, and what the numbers of two models say of who is better.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/left_out.h"
#include "eval/result.h"

namespace ddpm::eval {

/// What the best value of a number is.
enum class Best : uint8_t {
  reference,  ///< that of the data
  least,
  one,     ///< 1: for shares and their like
  nobody,  ///< the number is not compared
};

struct Measured {
  Metric metric;
  Best best = Best::least;
  VarianceTerm reference = {};  ///< how well the data's number is known, where that is the best one
  bool by_count = false;        ///< the number depends on how many samples there are
  bool over_data = false;       ///< the error is that over the data: other samples of the same model are no part of it
  bool share = false;           ///< a share, whose interval is that of wilson()
  /// The number of each sample set, where its error is partly one that sets share, or over conditions.
  std::vector<LeftOut> sets = {};
};

/// A number's distance from its best value, of which less is better, under the name of that distance.
Metric shortfall(const Measured& measured);

/// One number of several sample sets of one model becomes one, of their mean. `same_units`: unit u is the same
/// condition in all sets.
Measured together(const std::vector<const Measured*>& sets, bool same_units);

/// The numbers that all of these lists have, as same_rows() knows them: of each number that of every list. What refers
/// to the lists is as good as they are.
std::vector<std::vector<const Measured*>> same_numbers(std::span<const std::vector<Measured>> lists);

/// Compares two models by their shortfalls in one number. `same_units` as of together().
Comparison compare(const Measured& a, const Measured& b, bool same_units);

}  // namespace ddpm::eval
