// Ranks grouped by what they say.
#pragma once

#include <string>
#include <vector>

namespace ddpm::doctor {

/// Ranks that say the same.
struct RankGroup {
  std::string value;
  std::vector<int> ranks;          ///< ascending
  std::vector<std::string> hosts;  ///< theirs, each once
};

/// `values` and `hosts` of each rank. The largest group first; of equal ones that of the lowest rank.
std::vector<RankGroup> group_ranks(const std::vector<std::string>& values, const std::vector<std::string>& hosts);

/// "rank 3 on node01", "ranks 0-3 on node[00-01]"
std::string who(const std::vector<int>& ranks, const std::vector<std::string>& hosts);

/// "1.2 on node[00-01]; 1.3 on node02", of values that are the hosts'.
std::string host_groups_text(const std::vector<RankGroup>& groups);

/// "1.2 on ranks 0-2 on node00; 1.3 on rank 3 on node01"; of many groups the first few.
std::string groups_text(const std::vector<RankGroup>& groups);

}  // namespace ddpm::doctor
