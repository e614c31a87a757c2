// Judges how many ranks each host has.
#include <fmt/format.h>

#include "base/counted.h"
#include "doctor/groups.h"
#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {

std::vector<Finding> judge_ranks(const Survey& survey) {
  std::vector<std::string> counts;
  for (const auto& ranks : survey.ranks_of) counts.push_back(base::counted(ranks.size(), "rank"));
  const auto groups = group_ranks(counts, survey.hosts);
  const std::size_t hosts = survey.hosts.size();
  if (groups.size() == 1) {
    return {{Severity::ok, Area::ranks,
             hosts == 1 ? fmt::format("{} on {}", counts.front(), survey.hosts.front())
                        : fmt::format("{} on each of {} hosts, {}", counts.front(), hosts, hosts_text(survey.hosts)),
             ""}};
  }
  std::string seen;
  for (const RankGroup& group : groups) {
    seen += fmt::format("{}{} on {}{}", seen.empty() ? "" : "; ", group.value, group.hosts.size() > 1 ? "each of " : "",
                        hosts_text(group.hosts));
  }
  return {{Severity::warning, Area::ranks, seen,
           "start as many on every node (srun --ntasks-per-node=N): the fullest one sets the pace"}};
}

}  // namespace ddpm::doctor
