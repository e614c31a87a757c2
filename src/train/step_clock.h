// Where the time of an optimizer step went.
#pragma once

#include "comm/communicator.h"

namespace ddpm::train {

/// Seconds of one step on the rank where each was longest.
struct StepTimes {
  double seconds = 0.0;
  double data_wait = 0.0;
  double comm_wait = 0.0;
};

class StepClock {
 public:
  /// `data_waited`: seconds that the loader has waited in all, so far.
  void begin(double data_waited);
  /// Collective.
  StepTimes end(comm::Communicator& comm, double data_waited, double comm_waited) const;

 private:
  double began_ = 0.0;
  double data_waited_ = 0.0;
};

}  // namespace ddpm::train
