// Pure functions that turn a survey into findings. Each returns at least one `ok` when it finds nothing worse.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "doctor/finding.h"
#include "doctor/survey.h"

namespace ddpm::doctor {

/// Returns all findings below, in the order of the areas.
std::vector<Finding> judge(const Survey& survey);

/// Whether each host has as many ranks.
std::vector<Finding> judge_ranks(const Survey& survey);
/// Libraries, processors and kernels that differ between ranks.
std::vector<Finding> judge_versions(const Survey& survey);
/// Variables that differ between ranks, but for those that may_differ().
std::vector<Finding> judge_environment(const Survey& survey);
/// CPUs that ranks share, leave idle, or have too few of.
std::vector<Finding> judge_binding(const Survey& survey);
/// Memory, its limits, /dev/shm, huge pages.
std::vector<Finding> judge_memory(const Survey& survey);
/// Limits of the shell, and what network adapters want of them.
std::vector<Finding> judge_limits(const Survey& survey);
/// GPUs: as many as ranks, of one kind, each rank's own, that reach each other's memory.
std::vector<Finding> judge_devices(const Survey& survey);
/// Whether training would give each rank a GPU that it shares with none.
bool gpus_of_their_own(const Survey& survey);
/// Finds links and hosts that are slower than usual, and network adapters that are not used.
std::vector<Finding> judge_links(const Survey& survey);
/// What HPE Slingshot's adapters want of libfabric, NCCL and MPI. Nothing, not even an `ok`, where there are none.
std::vector<Finding> judge_slingshot(const Survey& survey);
std::vector<Finding> judge_clocks(const Survey& survey);
std::vector<Finding> judge_folder(const Survey& survey);

/// Helps the judges: returns one finding for each different text that `look` says of hosts (index; "" for nothing),
/// with their names: "TEXT on node[00-03]".
std::vector<Finding> judge_hosts(const Survey& survey, Severity severity, Area area, const std::string& advice,
                                 const std::function<std::string(std::size_t host)>& look);
/// What is looked at on each host in turn.
struct HostLook {
  Severity severity;
  const char* advice;
  std::string (*look)(const Survey& survey, std::size_t host);
};
std::vector<Finding> judge_hosts(const Survey& survey, Area area, std::span<const HostLook> looks);
/// One finding for each different text that `look` says of ranks ("" for nothing), with who they are:
/// "TEXT; ranks 0-3 on node[00-01]".
std::vector<Finding> judge_every_rank(const Survey& survey, Severity severity, Area area, const std::string& advice,
                                      const std::function<std::string(const ProcessFacts& rank)>& look);
/// What a rank says of `key`, or kNotSet.
std::string value_of(const std::map<std::string, std::string>& values, const std::string& key);
inline constexpr const char* kNotSet = "(not set)";
/// Adds `more` to `findings`.
void append(std::vector<Finding>& findings, std::vector<Finding> more);
/// "512 MiB", "1.5 GiB"; "unlimited" for -1.
std::string binary_size_text(int64_t bytes);

}  // namespace ddpm::doctor
