#include "train/finish_step.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace ddpm::train {

StepResult finish_step(engine::OptimizerStep& step, const engine::TrainingState& state, run::Supervision& supervision,
                       engine::StepClock& clock, comm::Communicator& world, std::span<double> losses) {
  StepResult result;
  result.loss_quartiles.fill(std::numeric_limits<double>::quiet_NaN());
  result.loss_scale = step.loss_scale();
  std::vector<double> sums(losses.size() + run::Supervision::kVotes);
  const engine::UpdateVerdict update = step.finish(sums);
  supervision.decide(std::span(sums).last<run::Supervision::kVotes>(), state.progress.step);
  std::ranges::copy(std::span(sums).first(losses.size()), losses.begin());
  result.gradient_norm = update.gradient_norm;
  result.learning_rate = update.learning_rate;
  result.step = state.progress.step;
  result.times = clock.end(world);
  result.own_times = clock.own();
  return result;
}

}  // namespace ddpm::train
