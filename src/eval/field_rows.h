// The numbers that `ddpm eval fields` takes from the sums of one variable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/field_sums.h"
#include "eval/rank_test.h"
#include "eval/row.h"

namespace ddpm::eval {

/// Neighbouring rings of the spectrum.
struct Band {
  std::size_t first = 0;  ///< ring 0 has the wave number 1
  std::size_t last = 0;

  /// "k 1", "k 3-5"
  [[nodiscard]] std::string name() const;
};
/// All rings, one by one where there are few, in about 12 bands of like width in the logarithm otherwise.
std::vector<Band> bands_of(std::size_t rings);

/// Where the sums of one variable lie.
struct VariableSums {
  std::string name;
  std::string unit;
  MarginalSums samples;     ///< in the sums of a sample set
  MarginalSums data;        ///< in those of the data, which may be the same sums
  bool data_apart = false;  ///< whether the data have sums of their own
  std::optional<EnsembleSums> ensemble = {};
  std::optional<ExchangeSums> exchange = {};  ///< of ensembles with several members
  std::vector<int64_t> modes = {};            ///< how many modes each ring has
};

/// In the order in which people read them: what can be said by sums. Quantiles are added to them.
std::vector<Row> field_rows(const VariableSums& variable);

}  // namespace ddpm::eval
