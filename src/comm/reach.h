// Whether the hosts of a job reach each other at all.
//
// A collective sends messages between any two ranks, and two that do not hear each other (a route that is missing, a
// switch that drops) keep all of them waiting, with nobody to say who. So this asks by single messages first.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ddpm::comm {

/// Between MPI_Init and the first collective, on all ranks: rank 0 hears every rank, and the first rank of each host
/// that of each other one, at the latest after `timeout_s`. If not, rank 0 says who does not hear whom in one line, and
/// ends the job with exit code 5. Opens connections between all hosts.
void expect_reach(double timeout_s);

/// "no message arrives between node01 and node02, node01 and node03, and 2 more pairs of hosts"; `pairs` are indices
/// into `hosts`.
std::string unreached_text(const std::vector<std::pair<int, int>>& pairs, const std::vector<std::string>& hosts);

}  // namespace ddpm::comm
