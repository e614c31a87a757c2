#include "train/step_clock.h"

#include <array>
#include <chrono>

#include "comm/collectives.h"

namespace ddpm::train {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void StepClock::begin(double data_waited) {
  began_ = now();
  data_waited_ = data_waited;
}

StepTimes StepClock::end(comm::Communicator& comm, double data_waited, double comm_waited) const {
  std::array<double, 3> times = {now() - began_, data_waited - data_waited_, comm_waited};
  comm::all_reduce(comm, times, comm::ReduceOp::max);
  return {times[0], times[1], times[2]};
}

}  // namespace ddpm::train
