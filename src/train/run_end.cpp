#include "train/run_end.h"

#include <algorithm>

namespace ddpm::train {

bool has_ended(int64_t step, int64_t total_steps, std::span<Callback* const> callbacks) {
  return step >= total_steps ||
         std::ranges::any_of(callbacks, [](const Callback* callback) { return callback->ends_run(); });
}

bool is_done(const run::RunFolder& folder, const std::optional<checkpoint::Checkpoint>& checkpoint, int64_t total_steps,
             std::span<Callback* const> callbacks) {
  return checkpoint && folder.has_model() && has_ended(checkpoint->manifest.step, total_steps, callbacks);
}

}  // namespace ddpm::train
