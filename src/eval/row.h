// A row of a result before it is estimated: what is computed from sums, and what it is held against.
#pragma once

#include <optional>
#include <vector>

#include "eval/evidence.h"
#include "eval/result.h"

namespace ddpm::eval {

struct Row {
  Metric metric;
  Statistic value;
  std::optional<double> exact = {};  ///< what the value should be,
  Statistic reference = {};          ///< or the data's own value
  Statistic distance = {};           ///< from the best value, by which two models are compared; may be none
  bool by_count = false;             ///< the distance is larger for fewer samples, whatever the model is
  bool share = false;                ///< the value is a share: of none or of all it has the interval of wilson()
  /// The deviation of the number of one unit in theory; 0: not known. Where what is counted is rare, samples alone say
  /// too little of their error: deviations count in the larger of the two.
  double unit_deviation = 0.0;
};

/// Estimates the rows, and compares A with B where there is a B. Metrics and comparisons are appended to `result`.
void estimate_into(Result& result, const Evidence& evidence, const std::vector<Row>& rows);

}  // namespace ddpm::eval
