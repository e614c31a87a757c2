#include "comm/odd_ranks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ddpm::comm {

OddRanks find_odd_ranks(std::span<const int64_t> ranks, std::span<const std::string> held) {
  std::map<std::string, std::vector<int64_t>> alike;
  for (const int64_t rank : ranks) alike[held[static_cast<std::size_t>(rank)]].push_back(rank);
  const auto usual = std::ranges::max_element(
      alike, {}, [](const auto& group) { return std::pair(group.second.size(), -group.second.front()); });
  OddRanks odd{.ranks = {}, .usual = usual->second.front()};
  for (auto group = alike.begin(); group != alike.end(); ++group) {
    if (group == usual) continue;
    odd.tie = odd.tie || group->second.size() == usual->second.size();
    odd.ranks.insert(odd.ranks.end(), group->second.begin(), group->second.end());
  }
  std::ranges::sort(odd.ranks);
  return odd;
}

}  // namespace ddpm::comm
