// The optimizer step on flat buffers: norm, clipping, AdamW, averages, working weights.
#pragma once

#include <cstdint>

#include "optim/adamw.h"
#include "optim/ema.h"
#include "train/model_state.h"

namespace ddpm::train {

/// L2 norm of the arena's whole gradient buffer. On the host, summed over a fixed tree of blocks: neither threads nor
/// ranks change a bit. NaN or infinite exactly when an element is.
double gradient_norm(const parallel::ParameterArena& arena);

/// One AdamW update with gradients × `gradient_scale`, then every average, then the working weights; on the host in one
/// pass over blocks that stay in the cache. Counts as update number model.progress.applied_updates, which the caller
/// has already advanced.
void apply_update(ModelState& model, const optim::AdamWConfig& adamw, const optim::EmaConfig& ema, double learning_rate,
                  double gradient_scale);

}  // namespace ddpm::train
