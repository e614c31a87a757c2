// Where the time of an optimizer step went.
#pragma once

#include <deque>

#include "comm/communicator.h"

namespace ddpm::engine {

/// Seconds of one step on the rank where each was longest.
struct StepTimes {
  double seconds = 0.0;  ///< since it began, or since the end of the step before, where that was later
  double data_wait = 0.0;
  double comm_wait = 0.0;
};

/// Steps begin, and end later in the same order.
class StepClock {
 public:
  void begin();
  /// Says that the step that began last is under way, and how many seconds it waited for images and for other ranks.
  void launched(double data_wait, double comm_wait);
  /// Returns the times of the oldest step under way. Collective.
  StepTimes end(comm::Communicator& comm);
  /// What end() has returned last, of this rank alone.
  [[nodiscard]] const StepTimes& own() const { return own_; }

 private:
  struct Step {
    double began = 0.0;
    double data_wait = 0.0;
    double comm_wait = 0.0;
  };
  Step step_;  // that began last
  std::deque<Step> under_way_;
  double ended_ = 0.0;
  StepTimes own_;
};

}  // namespace ddpm::engine
