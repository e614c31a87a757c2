// How far the clocks of ranks lie apart.
#pragma once

#include <vector>

#include "comm/communicator.h"

namespace ddpm::comm {

struct ClockOffset {
  double offset_s = 0.0;       ///< how far the clock of a rank is ahead of that of rank 0
  double uncertainty_s = 0.0;  ///< the largest error of offset_s
};

/// Compares each rank's `clock`, base::unix_seconds or base::steady_seconds, with that of rank 0, by the quickest of
/// several questions: the rank reads its time while rank 0 waits for the answer, and the error is at most half the time
/// that this took (F. Cristian, "Probabilistic clock synchronization", 1989). In rank order, on all ranks. Collective.
std::vector<ClockOffset> measure_clocks(Communicator& comm, double (*clock)());

}  // namespace ddpm::comm
