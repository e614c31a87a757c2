// Judges what must be alike everywhere: ranks, versions, environment.
#include <set>

#include <fmt/format.h>

#include "doctor/groups.h"
#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

constexpr const char* kNotSet = "(not set)";

/// What a rank says of `key`.
std::string value_of(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? kNotSet : found->second;
}

struct Version {
  const char* key;
  Severity severity;
  const char* advice;
};
constexpr const char* kOneLibrary =
    "load the same modules on all nodes, and look at LD_LIBRARY_PATH: all ranks must find the same library";
constexpr Version kVersions[] = {
    {"mpi", Severity::problem, kOneLibrary},
    {"libtorch", Severity::problem, kOneLibrary},
    {"hdf5", Severity::problem, kOneLibrary},
    {"cuda", Severity::problem, kOneLibrary},
    {"nccl", Severity::problem, kOneLibrary},
    {"cpu_capability", Severity::warning,
     "ask for nodes of one kind (srun --constraint); otherwise set ATEN_CPU_CAPABILITY to the least of them: "
     "kernels differ in speed and rounding"},
};

struct HostVersion {
  const char* name;
  std::string HostFacts::*value;
  Severity severity;
  const char* advice;
};
constexpr HostVersion kHostVersions[] = {
    {"processors", &HostFacts::cpu_model, Severity::warning,
     "ask for nodes of one kind (srun --constraint): all ranks wait for the slowest"},
    {"NVIDIA drivers", &HostFacts::gpu_driver, Severity::warning,
     "tell the administrators; NCCL wants one driver on all nodes"},
    {"kernels", &HostFacts::kernel, Severity::note, "tell the administrators: some nodes were not updated"},
};

/// Ranks whose LibTorch is not the one that the program was built for.
std::vector<Finding> foreign_libtorch(const Survey& survey) {
  std::vector<std::string> texts;
  for (const ProcessFacts& rank : survey.ranks) {
    const std::string mapped = value_of(rank.versions, "libtorch");
    const std::string built = value_of(rank.versions, "libtorch_of_build");
    texts.push_back(mapped == built ? ""
                                    : fmt::format("LibTorch {} is used ({}), but the program was built for {}", mapped,
                                                  rank.libtorch_file, built));
  }
  std::vector<Finding> findings;
  for (const RankGroup& group : group_ranks(texts, survey.rank_hosts())) {
    if (group.value.empty()) continue;
    findings.push_back({Severity::problem, Area::versions,
                        fmt::format("{}; {}", group.value, who(group.ranks, group.hosts)),
                        "take that folder out of LD_LIBRARY_PATH, where modules and environments of Python put it"});
  }
  return findings;
}

/// Ranks that take libraries from the working directory, which anybody may have put there.
std::vector<Finding> libraries_of_the_working_directory(const Survey& survey) {
  std::vector<std::string> problems;
  for (const ProcessFacts& rank : survey.ranks) problems.push_back(rank.library_path_problem);
  std::vector<Finding> findings;
  for (const RankGroup& group : group_ranks(problems, survey.rank_hosts())) {
    if (group.value.empty()) continue;
    findings.push_back({Severity::warning, Area::environment,
                        fmt::format("LD_LIBRARY_PATH has {}, so libraries of the working directory are loaded; {}",
                                    group.value, who(group.ranks, group.hosts)),
                        "write LD_LIBRARY_PATH=DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} where it is set"});
  }
  return findings;
}

}  // namespace

std::vector<Finding> judge_ranks(const Survey& survey) {
  std::vector<std::string> counts;
  for (const auto& ranks : survey.ranks_of) {
    counts.push_back(fmt::format("{} rank{}", ranks.size(), ranks.size() == 1 ? "" : "s"));
  }
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

std::vector<Finding> judge_versions(const Survey& survey) {
  std::vector<Finding> findings = foreign_libtorch(survey);
  const auto hosts = survey.rank_hosts();
  for (const Version& version : kVersions) {
    std::vector<std::string> values;
    for (const ProcessFacts& rank : survey.ranks) values.push_back(value_of(rank.versions, version.key));
    auto groups = group_ranks(values, hosts);
    std::erase_if(groups, [](const RankGroup& group) { return group.value == kNotSet; });  // no GPU: no CUDA
    if (groups.size() < 2) continue;
    findings.push_back(
        {version.severity, Area::versions, fmt::format("{}: {}", version.key, groups_text(groups)), version.advice});
  }
  for (const HostVersion& version : kHostVersions) {
    std::vector<std::string> values;
    for (std::size_t host = 0; host < survey.hosts.size(); ++host) {
      const std::string& value = survey.machine(host).*version.value;
      values.push_back(value.empty() ? "none" : value);
    }
    const auto groups = group_ranks(values, survey.hosts);
    if (groups.size() < 2) continue;
    findings.push_back({version.severity, Area::versions, fmt::format("{}: {}", version.name, host_groups_text(groups)),
                        version.advice});
  }
  if (findings.empty()) {
    const auto& versions = survey.ranks.front().versions;
    findings.push_back(
        {Severity::ok, Area::versions,
         fmt::format("ddpm {}, LibTorch {}, HDF5 {}{}", value_of(versions, "ddpm"), value_of(versions, "libtorch"),
                     value_of(versions, "hdf5"), survey.ranks.size() > 1 ? ", the same on all ranks" : ""),
         ""});
  }
  return findings;
}

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
                        fmt::format("{} variable{} of interest{}", names.size(), names.size() == 1 ? "" : "s",
                                    survey.ranks.size() > 1 ? ", the same on all ranks" : ""),
                        ""});
  }
  return findings;
}

}  // namespace ddpm::doctor
