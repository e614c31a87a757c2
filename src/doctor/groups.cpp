#include "doctor/groups.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "base/counted.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {

std::vector<RankGroup> group_ranks(const std::vector<std::string>& values, const std::vector<std::string>& hosts) {
  std::vector<RankGroup> groups;
  std::map<std::string, std::size_t> place;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    const auto [found, added] = place.emplace(values[rank], groups.size());
    if (added) groups.push_back({.value = values[rank], .ranks = {}, .hosts = {}});
    RankGroup& group = groups[found->second];
    group.ranks.push_back(static_cast<int>(rank));
    // Ranks of one host mostly come one after the other; hosts_text() names each once.
    if (group.hosts.empty() || group.hosts.back() != hosts[rank]) group.hosts.push_back(hosts[rank]);
  }
  std::ranges::stable_sort(groups, std::ranges::greater{}, [](const RankGroup& group) { return group.ranks.size(); });
  return groups;
}

std::string who(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  return fmt::format("{} {} on {}", base::plural(ranks.size() == 1, "rank"), ranges_text(ranks), hosts_text(hosts));
}

std::string host_groups_text(const std::vector<RankGroup>& groups) {
  std::string text;
  for (const RankGroup& group : groups) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", group.value, hosts_text(group.hosts));
  }
  return text;
}

std::string groups_text(const std::vector<RankGroup>& groups) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kNamed); ++i) {
    text += fmt::format("{}{} on {}", i == 0 ? "" : "; ", groups[i].value, who(groups[i].ranks, groups[i].hosts));
  }
  return groups.size() > kNamed ? text + fmt::format("; and {} more", groups.size() - kNamed) : text;
}

}  // namespace ddpm::doctor
