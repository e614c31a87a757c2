#include "engine/progress.h"

#include <algorithm>
#include <cfloat>

#include "base/json_fields.h"
#include "engine/limits.h"

namespace ddpm::engine {

base::Json to_json(const Progress& progress) {
  return {{"step", progress.step},
          {"applied_updates", progress.applied_updates},
          {"averaged_updates", progress.averaged_updates},
          {"images_seen", progress.images_seen},
          {"loss_scale", progress.scaler.scale},
          {"loss_scale_growth_tracker", progress.scaler.growth_tracker},
          {"consecutive_skips", progress.scaler.consecutive_skips},
          {"resumed_from", progress.resumed_from}};
}

Progress read_progress(const base::Json& state, int64_t step, const std::string& origin) {
  using base::JsonFields;
  const JsonFields fields(
      state, origin,
      {"step", "applied_updates", "images_seen", "loss_scale", "loss_scale_growth_tracker", "consecutive_skips"},
      JsonFields::Others::ignored);
  Progress progress;
  const int64_t own_step = std::min(step, kMaxSteps);
  progress.step = fields.integer("step", own_step, own_step);
  progress.applied_updates = fields.integer("applied_updates", 0, step);
  progress.averaged_updates = fields.has("averaged_updates")
                                  ? fields.integer("averaged_updates", 0, progress.applied_updates)
                                  : progress.applied_updates;
  progress.images_seen = fields.integer("images_seen", 0, kMaxSteps * kMaxBatch);
  progress.scaler.scale = fields.number("loss_scale", FLT_MIN, FLT_MAX);
  progress.scaler.growth_tracker = fields.integer("loss_scale_growth_tracker", 0, step);
  progress.scaler.consecutive_skips = fields.integer("consecutive_skips", 0, step);
  if (fields.has("resumed_from")) progress.resumed_from = fields.text("resumed_from");  // absent in early checkpoints
  return progress;
}

}  // namespace ddpm::engine
