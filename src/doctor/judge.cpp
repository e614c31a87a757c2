#include "doctor/judge.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/binary_units.h"
#include "doctor/groups.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {

std::vector<Finding> judge(const Survey& survey) {
  std::vector<Finding> all;
  for (const auto& one : {judge_ranks, judge_versions, judge_environment, judge_binding, judge_memory, judge_limits,
                          judge_devices, judge_links, judge_slingshot, judge_clocks, judge_folder}) {
    append(all, one(survey));
  }
  return all;
}

std::vector<Finding> judge_hosts(const Survey& survey, Severity severity, Area area, const std::string& advice,
                                 const std::function<std::string(std::size_t host)>& look) {
  std::vector<std::string> texts;
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) texts.push_back(look(host));
  std::vector<Finding> findings;
  for (const RankGroup& group : group_ranks(texts, survey.hosts)) {
    if (group.value.empty()) continue;
    findings.push_back({severity, area, fmt::format("{} on {}", group.value, hosts_text(group.hosts)), advice});
  }
  return findings;
}

std::vector<Finding> judge_hosts(const Survey& survey, Area area, std::span<const HostLook> looks) {
  std::vector<Finding> findings;
  for (const HostLook& one : looks) {
    append(findings, judge_hosts(survey, one.severity, area, one.advice,
                                 [&](std::size_t host) { return one.look(survey, host); }));
  }
  return findings;
}

std::vector<Finding> judge_every_rank(const Survey& survey, Severity severity, Area area, const std::string& advice,
                                      const std::function<std::string(const ProcessFacts& rank)>& look) {
  std::vector<std::string> texts;
  for (const ProcessFacts& rank : survey.ranks) texts.push_back(look(rank));
  std::vector<Finding> findings;
  for (const RankGroup& group : group_ranks(texts, survey.rank_hosts())) {
    if (group.value.empty()) continue;
    findings.push_back({severity, area, fmt::format("{}; {}", group.value, who(group.ranks, group.hosts)), advice});
  }
  return findings;
}

std::string value_of(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? kNotSet : found->second;
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string binary_size_text(int64_t bytes) {
  constexpr double kMiB = base::kMiB;
  constexpr double kGiB = base::kGiB;
  if (bytes < 0) return "unlimited";
  const auto value = static_cast<double>(bytes);
  if (value < kMiB) return fmt::format("{:.3g} KiB", value / 1024.0);
  if (value < kGiB) return fmt::format("{:.0f} MiB", value / kMiB);
  if (value < 1024.0 * kGiB) return fmt::format("{:.3g} GiB", value / kGiB);
  return fmt::format("{:.3g} TiB", value / kGiB / 1024.0);
}

}  // namespace ddpm::doctor
