#include "engine/training_state.h"

#include <ATen/core/grad_mode.h>

namespace ddpm::engine {

TrainingState::TrainingState(const std::vector<parallel::ArenaParameter>& parameters,
                             std::vector<NamedTensor> untrained, std::size_t ema_count, at::ScalarType compute_dtype,
                             at::Device device, const parallel::Sharding& sharding)
    : constants(std::move(untrained)),
      arena(parameters, compute_dtype, device, sharding),
      exp_avg(arena.make_state()),
      exp_avg_sq(arena.make_state()) {
  for (std::size_t i = 0; i < ema_count; ++i) ema.push_back(arena.make_state());
}

void TrainingState::start_from_master() {
  const at::NoGradGuard no_grad;
  arena.refresh_working();
  for (parallel::StateBuffer& average : ema) {
    for (std::size_t i = 0; i < average.size(); ++i) average[i].copy_(arena.master()[i]);
  }
}

}  // namespace ddpm::engine
