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

/// torch.optim.SGD(nesterov=True) with `mean` for the weights that a gradient of length 1 leads to.
void outer_update(const parallel::ParallelConfig& config, const at::Tensor& mean, const at::Tensor& anchor,
                  const at::Tensor& momentum) {
  const at::Tensor gradient = anchor - mean;
  momentum.mul_(config.outer_momentum).add_(gradient);
  anchor.sub_(gradient.add_(momentum, config.outer_momentum), config.outer_learning_rate);
}

}  // namespace

OuterStep::OuterStep(const StepRules& rules, TrainingState& state, comm::Communicator& world,
                     comm::Communicator& data_parallel)
    : rules_(rules), state_(state) {
  if (!state.outer) return;
  islands_ = comm::axis_communicator(where_state_is(state, world, data_parallel), rules.mesh, layout::Axis::island);
}

bool OuterStep::due(int64_t step) const {
  return islands_ && (step % rules_.parallelism.sync_every == 0 || step == rules_.total_steps);
}

void OuterStep::run(int64_t step) {
  const at::NoGradGuard no_grad;
  const auto islands = static_cast<double>(islands_->size());
  for (std::size_t piece = 0; piece < state_.arena.pieces().size(); ++piece) {
    const at::Tensor& weights = state_.arena.master()[piece];
    islands_->all_reduce(parallel::buffer_of(weights), comm::ReduceOp::sum).wait();
    outer_update(rules_.parallel, weights.div_(islands), state_.outer->anchor[piece], state_.outer->momentum[piece]);
    weights.copy_(state_.outer->anchor[piece]);
    for (std::size_t average = 0; average < state_.ema.size(); ++average) {
      state_.ema[average][piece].lerp_(weights, 1.0 - decay_over(average, step));
    }
  }
  state_.arena.refresh_working();
}

/// What is left of an average after the steps since the last outer one.
double OuterStep::decay_over(std::size_t average, int64_t step) const {
  const int64_t every = rules_.parallelism.sync_every;
  double decay = 1.0;
  for (int64_t passed = (step - 1) / every * every + 1; passed <= step; ++passed) {
    decay *= optim::ema_decay(rules_.ema, average, passed);
  }
  return decay;
}

}  // namespace ddpm::engine
