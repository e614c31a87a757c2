// What a run remembers of its validations: which step was best, and for how long nothing has improved. Part of every
// checkpoint's state. Pure arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"

namespace ddpm::train {

struct ValidationRecord {
  std::string set;                      ///< which images the losses are of; those of other images cannot be compared
  std::optional<double> best_loss;      ///< the lowest so far; none before the first validation
  int64_t best_step = 0;                ///< where it was seen
  std::optional<double> improved_loss;  ///< that of the last improvement by more than min_delta
  int64_t waited = 0;                   ///< validations since then
  std::optional<double> last_loss;      ///< that of the newest validation; none when it was not finite
  int64_t last_step = 0;                ///< where it was seen

  /// Counts a validation; returns whether its loss is the lowest so far. The two follow different rules: any lower loss
  /// is the best, but only one below improved_loss - min_delta ends the waiting, so that many small steps down add up
  /// to an improvement. A loss that is not finite is neither.
  bool add(int64_t step, double loss, double min_delta);

  /// The loss of the weights after `step`, where it is remembered.
  [[nodiscard]] std::optional<double> loss_at(int64_t step) const;

  /// Whether `patience` validations in a row (0: any number) have passed without an improvement.
  [[nodiscard]] bool out_of_patience(int64_t patience) const { return patience > 0 && waited >= patience; }
};

/// The scalars under which a checkpoint's state holds it, and back. A state without them is that of a run that has not
/// been validated yet. Numbers keep every bit. Throws OutputError that names `origin` when they are damaged.
void write_validation_record(const ValidationRecord& record, base::Json& state);
ValidationRecord read_validation_record(const base::Json& state, const std::string& origin);

}  // namespace ddpm::train
