// What the validations of a run say, as far as they can be compared.
#pragma once

#include <cstdint>
#include <optional>

#include "report/run_record.h"
#include "report/stats.h"

namespace ddpm::report {

struct Validations {
  int64_t count = 0;
  double last = 0.0;
  double best = 0.0;
  int64_t best_step = 0;
  int64_t since_best = 0;           ///< validations after the best one
  double least_lately = 0.0;        ///< the lowest of the last three
  std::optional<Trend> trend = {};  ///< trend of the last validation losses
  /// What the validation loss lies above the mean training loss of the steps around it, now and at the best one; none
  /// where other images were trained on then.
  std::optional<Interval> gap = {};
  std::optional<Interval> gap_at_best = {};
};

/// Up to which step other images were trained on than now, by what the starts say in usage.jsonl; 0: none that are
/// known. Starts of earlier versions do not say which.
int64_t last_step_of_other_images(const RunRecord& run);
/// Up to which step another set was validated on than now, or 0. A start that did not validate is passed over.
int64_t last_step_of_other_validation(const RunRecord& run);

/// The validations on the set in use; none where there are none of it yet.
std::optional<Validations> validations_of(const RunRecord& run);

}  // namespace ddpm::report
