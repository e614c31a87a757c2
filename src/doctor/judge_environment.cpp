// Judges variables of the environment, which must be alike everywhere.
#include <set>

#include <fmt/format.h>

#include "base/counted.h"
#include "doctor/groups.h"
#include "doctor/judge.h"

namespace ddpm::doctor {
namespace {

/// Ranks that take libraries from the working directory, which anybody may have put there.
std::vector<Finding> libraries_of_the_working_directory(const Survey& survey) {
  return judge_every_rank(
      survey, Severity::warning, Area::environment,
      "write LD_LIBRARY_PATH=DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} where it is set", [](const ProcessFacts& rank) {
        const std::string& problem = rank.library_path_problem;
        if (problem.empty()) return problem;
        return fmt::format("LD_LIBRARY_PATH has {}, so libraries of the working directory are loaded", problem);
      });
}

}  // namespace

std::vector<Finding> judge_environment(const Survey& survey) {
  constexpr std::size_t kNamed = 6;
  std::set<std::string> names;
  for (const ProcessFacts& rank : survey.ranks) {
    for (const auto& [name, value] : rank.environment) {
      if (!may_differ(name)) names.insert(name);
    }
  }
  const auto hosts = survey.rank_hosts();
  std::vector<Finding> findings = libraries_of_the_working_directory(survey);
  std::size_t different = 0;
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const ProcessFacts& rank : survey.ranks) values.push_back(value_of(rank.environment, name));
    const auto groups = group_ranks(values, hosts);
    if (groups.size() < 2 || ++different > kNamed) continue;
    findings.push_back({Severity::warning, Area::environment, fmt::format("{} = {}", name, groups_text(groups)),
                        "set it alike for all ranks, in the job script; mpirun hands a variable on with -x NAME"});
  }
  if (different > kNamed) findings.back().seen += fmt::format("; and {} more variables differ", different - kNamed);
  if (findings.empty()) {
    findings.push_back({Severity::ok, Area::environment,
                        fmt::format("{} of interest{}", base::counted(names.size(), "variable"),
                                    survey.ranks.size() > 1 ? ", the same on all ranks" : ""),
                        ""});
  }
  return findings;
}

}  // namespace ddpm::doctor
