// Messages between two ranks at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/communicator.h"

namespace ddpm::doctor {

/// The link between places `a` < `b` of a communicator.
struct Link {
  int a = 0;
  int b = 0;
  double latency_s = 0.0;         ///< time of a small message, one way; the least of several
  double bytes_per_second = 0.0;  ///< rate of a large message, one way; the highest of several
};

inline constexpr int64_t kLinkBytes = int64_t{4} << 20;  ///< size of a large message

/// Measures the link of every pair of ranks of `comm`, each rank with one other at a time, in tournament_rounds()
/// rounds. `begin_round` is called with each round's number. All ranks return the same answer. Collective.
std::vector<Link> measure_links(comm::Communicator& comm, const std::function<void(int64_t round)>& begin_round);

/// Measures the link between the first and the last rank of `comm`; latency 0 for one rank. Collective.
Link measure_ends(comm::Communicator& comm);

}  // namespace ddpm::doctor
