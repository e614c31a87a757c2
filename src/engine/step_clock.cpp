#include "engine/step_clock.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "comm/collectives.h"

namespace ddpm::engine {

void StepClock::begin() { step_ = {.began = base::steady_seconds()}; }

void StepClock::launched(double data_wait, double comm_wait) {
  step_.data_wait = data_wait;
  step_.comm_wait = comm_wait;
  under_way_.push_back(step_);
}

StepTimes StepClock::end(comm::Communicator& comm) {
  const Step step = under_way_.front();
  under_way_.pop_front();
  const double since = std::max(step.began, ended_);
  ended_ = base::steady_seconds();
  own_ = {ended_ - since, step.data_wait, step.comm_wait};
  std::array<double, 3> times = {own_.seconds, own_.data_wait, own_.comm_wait};
  comm::all_reduce(comm, times, comm::ReduceOp::max);
  return {times[0], times[1], times[2]};
}

}  // namespace ddpm::engine
