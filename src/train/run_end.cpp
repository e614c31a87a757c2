#include "train/run_end.h"

#include <algorithm>

#include "data/order.h"

namespace ddpm::train {

int64_t steps_on(const data::Dataset& dataset, const Config& config) {
  return config.train.total_steps(data::images_per_epoch(dataset.parts()), config.batch.global_size);
}

bool has_ended(int64_t step, int64_t total_steps, std::span<Callback* const> callbacks) {
  return step >= total_steps ||
         std::ranges::any_of(callbacks, [](const Callback* callback) { return callback->ends_run(); });
}

bool is_done(const run::RunFolder& folder, const std::optional<checkpoint::Checkpoint>& checkpoint, int64_t total_steps,
             std::span<Callback* const> callbacks) {
  return checkpoint && folder.has_model() && has_ended(checkpoint->manifest.step, total_steps, callbacks);
}

}  // namespace ddpm::train
