// Whether ranks of the truth among the members of an ensemble are those of a perfect model: a test that is exact.
//
// A perfect model's members and the truth of a condition are draws from one distribution, so that each of them could as
// well have been the truth. Hence the truth's deviation from a flat histogram of ranks is held against those that
// others have in its place: of each condition one of them is drawn, the truth itself included, and p is the share of
// such draws that deviate as much (Monte Carlo tests: Besag, Clifford, Biometrika 76, 633 (1989); p values: Phipson,
// Smyth, Statistical Applications in Genetics and Molecular Biology 9, 39 (2010)). Pixels of a condition stay together,
// so their correlation does not matter, and neither does the number of conditions: it is an exact permutation test.
// Pearson's statistic with the distribution of chi-squared, also after Rao's and Scott's correction (Journal of the
// American Statistical Association 76, 221 (1981)), rejects perfect models far too often where conditions are few or
// pixels are correlated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "eval/evidence.h"
#include "eval/field_sums.h"
#include "eval/result.h"

namespace ddpm::eval {

/// Where a table of histograms lies: the ranks that the truth, and each of some members in its place, has among all
/// others. The members are 31 at most, and fewer of large ensembles, whose histograms have many ranks.
struct ExchangeSums {
  std::size_t first = 0;
  int64_t members = 1;

  [[nodiscard]] std::size_t others() const;
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(members) + 1; }
  [[nodiscard]] std::size_t size() const { return (others() + 1) * ranks(); }
  /// The histogram of the truth, number 0, or of another in its place.
  [[nodiscard]] std::span<const double> histogram(std::span<const double> sums, std::size_t number) const {
    return sums.subspan(first + number * ranks(), ranks());
  }
  /// Adds a condition, as EnsembleSums::add() takes it.
  void add(std::span<const float> x, std::size_t stride, std::span<const float> y, std::span<const uint8_t> valid,
           const EnsembleSums::Ties& ties, std::span<double> sums) const;
};

/// p of one set's ranks. NaN where there are too few conditions for a p below 1 - kLevel.
double exchange_p_value(const BlockSums& sums, const ExchangeSums& at);
/// p of several sets of the same conditions: the least one, times their number (Bonferroni).
double exchange_p_value(std::span<const BlockSums> sets, const ExchangeSums& at);

/// From the shares of ranks in `metrics`, from place `first` on: their squared deviations from the same share each,
/// over their squared errors, times the number of ranks less 1. Correlated pixels have like ranks, which the errors
/// tell, since they are over conditions; of independent ones it is Pearson's chi-squared (Rao and Scott, see above).
void add_rank_test(std::vector<Metric>& metrics, std::size_t first, double p_value);

}  // namespace ddpm::eval
