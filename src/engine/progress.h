// The counters of a run, and how a checkpoint's state holds them.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "optim/loss_scale_rule.h"

namespace ddpm::engine {

/// Saved with every checkpoint.
struct Progress {
  int64_t step = 0;             ///< attempted optimizer steps, those skipped for overflow included
  int64_t applied_updates = 0;  ///< steps that changed the weights: counts for Adam, learning rate and EMA
  /// Updates that moving averages have seen; of islands' updates they see the outer steps.
  int64_t averaged_updates = 0;
  int64_t images_seen = 0;  ///< or whatever the batch is counted in
  optim::LossScaleState scaler;
  std::string resumed_from;  ///< the checkpoint that checkpoint.resume named, if it named one
};

/// The scalars under which a checkpoint's state holds it. Callers put keys of their own beside these.
base::Json to_json(const Progress& progress);
/// The reverse, of a checkpoint of `step`. Throws OutputError, which begins with `origin`, for a number that no run
/// reaches (engine/limits.h).
Progress read_progress(const base::Json& state, int64_t step, const std::string& origin);

}  // namespace ddpm::engine
