// All that `ddpm doctor` gathers before it judges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/clock_offset.h"
#include "device/device_choice.h"
#include "doctor/folder_check.h"
#include "doctor/links.h"
#include "doctor/process_facts.h"

namespace ddpm::doctor {

/// Sums of float32 over all ranks, by size.
struct ReductionCurve {
  struct Point {
    int64_t bytes = 0;              ///< size of each rank's buffer
    double seconds = 0.0;           ///< time of the slowest rank, median of several
    double bytes_per_second = 0.0;  ///< what a rank sends: 2 (n - 1) / n of the buffer
  };
  device::DeviceChoice device = device::DeviceChoice::cpu;  ///< the host's memory (MPI), or the GPUs' (NCCL)
  std::vector<Point> points;
};

struct Survey {
  std::string thread_level;                ///< how far threads may call MPI: "multiple"
  std::vector<ProcessFacts> ranks;         ///< `machine` is filled for the first rank of each host
  std::vector<std::string> hosts;          ///< each once, in the order of their first ranks
  std::vector<int> host_of;                ///< for each rank the index into `hosts`
  std::vector<std::vector<int>> ranks_of;  ///< for each host its ranks, ascending
  std::vector<Link> links;                 ///< between hosts: indices into `hosts`
  std::vector<Link> inside;  ///< for each host, between its first and its last rank; `a` and `b` count its ranks
  std::vector<comm::ClockOffset> clocks;  ///< clock of each host, against the first one's
  std::vector<ReductionCurve> curves;
  FolderFacts folder;
  std::vector<int> visitors;  ///< the ranks of folder.visits

  [[nodiscard]] const HostFacts& machine(std::size_t host) const {
    return ranks[static_cast<std::size_t>(ranks_of[host].front())].machine;
  }
  [[nodiscard]] const std::string& host_of_rank(int rank) const {
    return hosts[static_cast<std::size_t>(host_of[static_cast<std::size_t>(rank)])];
  }
  /// The host of each rank, by name.
  [[nodiscard]] std::vector<std::string> rank_hosts() const;
};

/// The hosts of ranks whose host names are `names`, and nothing else.
Survey make_survey(const std::vector<std::string>& names);

}  // namespace ddpm::doctor
