#include "engine/outer_step.h"

#include <ATen/core/grad_mode.h>

#include "comm/axis_communicator.h"
#include "optim/ema.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::engine {
namespace {

/// Offloaded state is in host memory.
comm::Communicator& where_state_is(const TrainingState& state, comm::Communicator& world,
                                   comm::Communicator& data_parallel) {
  return state.arena.sharding().offload == parallel::Offload::none ? data_parallel : world;
}

/// A step of torch.optim.SGD(nesterov=True) from `anchor`, whose gradient is the way from `mean` to there.
void outer_update(const parallel::OuterConfig& config, const at::Tensor& mean, const at::Tensor& anchor,
                  const at::Tensor& momentum) {
  const at::Tensor gradient = anchor - mean;
  momentum.mul_(config.momentum).add_(gradient);
  anchor.sub_(gradient.add_(momentum, config.momentum), config.learning_rate);
}

}  // namespace

OuterStep::OuterStep(const StepRules& rules, TrainingState& state, comm::Communicator& world,
                     comm::Communicator& data_parallel)
    : rules_(rules), state_(state) {
  if (!state.outer) return;
  comm::Communicator& all = where_state_is(state, world, data_parallel);
  islands_ = comm::axis_communicator(all, rules.mesh, layout::Axis::island);
  uncut_.emplace(state.arena, state.arena.master(), all, rules.mesh, layout::Axis::island);
}

bool OuterStep::due(int64_t step) const {
  return islands_ && (step % rules_.parallelism.sync_every == 0 || step == rules_.total_steps);
}

void OuterStep::run() {
  const at::NoGradGuard no_grad;
  const auto islands = static_cast<double>(islands_->size());
  const std::vector<double> decays = unseen_decays();
  for (const at::Tensor& weights : state_.arena.master()) {
    islands_->all_reduce(parallel::buffer_of(weights), comm::ReduceOp::sum).wait();
  }
  uncut_->take_first();
  for (std::size_t piece = 0; piece < state_.arena.pieces().size(); ++piece) {
    const at::Tensor& weights = state_.arena.master()[piece];
    outer_update(rules_.outer, weights.div_(islands), state_.outer->anchor[piece], state_.outer->momentum[piece]);
    weights.copy_(state_.outer->anchor[piece]);
    for (std::size_t average = 0; average < state_.ema.size(); ++average) {
      state_.ema[average][piece].lerp_(weights, 1.0 - decays[average]);
    }
  }
  state_.progress.averaged_updates = state_.progress.applied_updates;
  state_.arena.refresh_working();
}

std::vector<double> OuterStep::unseen_decays() const {
  const Progress& progress = state_.progress;
  std::vector<double> decays(state_.ema.size(), 1.0);
  for (std::size_t average = 0; average < decays.size(); ++average) {
    for (int64_t update = progress.averaged_updates + 1; update <= progress.applied_updates; ++update) {
      decays[average] *= optim::ema_decay(rules_.ema, average, update);
    }
  }
  return decays;
}

}  // namespace ddpm::engine
