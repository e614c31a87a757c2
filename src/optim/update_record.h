// What an update on a device keeps there from step to step, and what is decided between its two passes over the flat
// buffers: as one function for the host and for a kernel.
//
// Nothing in it depends on a number that the host would have to wait for. Whatever needs a power, a cosine or a
// division by the number of steps was computed by the host for the next updates (optim::UpdateSchedule); here follow
// only operations that IEEE 754 rounds in one way, so that host and device take the same decision, bit for bit.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <c10/macros/Macros.h>

#include "optim/clip.h"
#include "optim/flat_kernels.h"
#include "optim/loss_scale_rule.h"

namespace ddpm::optim {

/// A run of float64 in device memory, as a tensor of kRecordSize elements; numbers that ranks sum up anyway may follow.
struct UpdateRecord {
  // These are kept from step to step: LossScaleState, whose integers are exact in float64.
  double scale;
  double growth_tracker;
  double consecutive_skips;
  double applied_updates;
  double exhausted;    ///< 1 once the loss scale's verdict was not fine: nothing is applied any more
  double norm;         ///< norm of the last step's gradient, unscaled, before clipping; infinite when it is not finite
  double own_squares;  ///< Σ g² of this rank's gradient
  // Summed over the ranks, from here on.
  double squares;     ///< this rank's share of Σ g²: own_squares over the number of ranks that hold the same
  double not_finite;  ///< 1 where own_squares is not finite, and no share
};

inline constexpr int64_t kRecordSize = sizeof(UpdateRecord) / sizeof(double);
inline constexpr int64_t kScale = offsetof(UpdateRecord, scale) / sizeof(double);
inline constexpr int64_t kOwnSquares = offsetof(UpdateRecord, own_squares) / sizeof(double);
inline constexpr int64_t kSummed = offsetof(UpdateRecord, squares) / sizeof(double);

/// A run of float32 in device memory: what the pass over the weights reads; then 1 - decay of each average.
struct UpdateScalars {
  float applies;  ///< 1, or 0: the weights stay as they are
  AdamWScalars adamw;
};

inline constexpr int64_t kScalarsSize = sizeof(UpdateScalars) / sizeof(float);

/// What stays the same over a run.
struct UpdateRules {
  bool whole = true;      ///< own_squares is that of the whole gradient: no other rank has a share of it
  double max_norm = 0.0;  ///< see optim::clip_coefficient
  LossScaleRule loss_scale;
};

/// The coming updates' numbers: update n (0 for the first) has row n % rows, AdamWScalars for gradients that are not
/// scaled and then 1 - decay of each average.
struct ScheduleRows {
  const float* values = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
};

/// Called once own_squares, and all that is summed over ranks, are known: decides whether this step's update applies,
/// leaves its numbers in `scalars` (1 + width elements), and counts the step in the record.
C10_HOST_DEVICE inline void decide_update(const UpdateRules& rules, const ScheduleRows& schedule, UpdateRecord& record,
                                          float* scalars) {
  scalars[0] = 0.0F;
  if (record.exhausted != 0.0) return;
  const bool finite = record.not_finite == 0.0;
  record.norm = finite ? std::sqrt(rules.whole ? record.own_squares : record.squares) / record.scale : HUGE_VAL;
  if (finite) {
    const auto update = static_cast<int64_t>(record.applied_updates);
    const float* row = schedule.values + update % schedule.rows * schedule.width;
    scalars[0] = 1.0F;
    scalars[1] = static_cast<float>(clip_coefficient(record.norm, rules.max_norm) / record.scale);
    for (int64_t i = 1; i < schedule.width; ++i) scalars[1 + i] = row[i];
    record.applied_updates += 1.0;
  }
  LossScaleState state{record.scale, static_cast<int64_t>(record.growth_tracker),
                       static_cast<int64_t>(record.consecutive_skips)};
  const ScaleVerdict verdict = advance_loss_scale(rules.loss_scale, !finite, state);
  record.scale = state.scale;
  record.growth_tracker = static_cast<double>(state.growth_tracker);
  record.consecutive_skips = static_cast<double>(state.consecutive_skips);
  if (verdict != ScaleVerdict::fine) record.exhausted = 1.0;
}

}  // namespace ddpm::optim
