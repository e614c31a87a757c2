// Judges libraries, processors and kernels, which must be alike everywhere.
#include <fmt/format.h>

#include "doctor/groups.h"
#include "doctor/judge.h"

namespace ddpm::doctor {
namespace {

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
  return judge_every_rank(survey, Severity::problem, Area::versions,
                          "take that folder out of LD_LIBRARY_PATH, where modules and environments of Python put it",
                          [](const ProcessFacts& rank) {
                            const std::string mapped = value_of(rank.versions, "libtorch");
                            const std::string built = value_of(rank.versions, "libtorch_of_build");
                            if (mapped == built) return std::string();
                            return fmt::format("LibTorch {} is used ({}), but the program was built for {}", mapped,
                                               rank.libtorch_file, built);
                          });
}

}  // namespace

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

}  // namespace ddpm::doctor
