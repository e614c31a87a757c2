// The optimizer step on flat buffers in host memory: norm, clipping, AdamW, averages, working weights; exchanging
// buffers.
#pragma once

#include <cstdint>

#include "engine/part_timer.h"
#include "engine/training_state.h"
#include "optim/adamw.h"
#include "optim/ema.h"
#include "parallel/offload.h"

namespace ddpm::engine {

/// Sum of squares of a flat gradient, on any device, over a fixed tree of blocks: threads do not change a bit. NaN or
/// infinite exactly when an element is.
double sum_of_squares(const at::Tensor& gradient);

/// One AdamW update of this rank's pieces with gradients × `gradient_scale`, then every average, unless those follow
/// outer steps (engine/outer_step.h), then its parts of the working weights; in one pass over blocks that stay in the
/// cache, but for the working weights. Counts as update number model.progress.applied_updates, which the caller has
/// already advanced. `offloaded` is started for state in host memory and null otherwise. `parts` is in the part
/// `optimizer`.
void apply_update(TrainingState& model, const optim::AdamWConfig& adamw, const optim::EmaConfig& ema,
                  double learning_rate, double gradient_scale, PartTimer& parts, parallel::OffloadedUpdate* offloaded);

/// Exchanges the values of two state buffers of one arena, block by block.
void swap_values(const parallel::StateBuffer& a, const parallel::StateBuffer& b);

}  // namespace ddpm::engine
