// When a run has ended: what training and a dry run have to find alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "checkpoint/store.h"
#include "data/dataset.h"
#include "run/run_folder.h"
#include "train/callback.h"
#include "train/config.h"

namespace ddpm::train {

/// The steps of a run on this training set, those of all its starts together.
int64_t steps_on(const data::Dataset& dataset, const Config& config);

/// Whether no step follows `step`: all of `total_steps` are done, or one of the callbacks ends the run.
bool has_ended(int64_t step, int64_t total_steps, std::span<Callback* const> callbacks);

/// Whether a start has nothing to do: no step follows `checkpoint`, after the resume() of `callbacks`, and the finished
/// model is in `folder`.
bool is_done(const run::RunFolder& folder, const std::optional<checkpoint::Checkpoint>& checkpoint, int64_t total_steps,
             std::span<Callback* const> callbacks);

}  // namespace ddpm::train
