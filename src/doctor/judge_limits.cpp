// Judges the limits that a shell or a job sets, and the network adapters that want much of them.
#include <algorithm>

#include <fmt/format.h>

#include "doctor/groups.h"
#include "doctor/judge.h"

namespace ddpm::doctor {
namespace {

// What InfiniBand adapters may pin. Registered buffers are as large as messages.
constexpr int64_t kLeastLocked = int64_t{1} << 30;
constexpr int64_t kLeastFiles = 1024;

int64_t limit_of(const ProcessFacts& rank, const char* name) {
  const auto found = rank.limits.find(name);
  return found == rank.limits.end() ? -1 : found->second;
}

/// The first rank of each host speaks for it.
const ProcessFacts& first_rank(const Survey& survey, std::size_t host) {
  return survey.ranks[static_cast<std::size_t>(survey.ranks_of[host].front())];
}

bool has_fabric(const HostFacts& machine) {
  return std::ranges::any_of(machine.fabric_ports, [](const FabricPort& port) { return port.state == "ACTIVE"; });
}

std::string little_locked(const Survey& survey, std::size_t host) {
  const int64_t limit = limit_of(first_rank(survey, host), "locked_memory_bytes");
  if (limit < 0 || limit >= kLeastLocked || !has_fabric(survey.machine(host))) return "";
  return fmt::format("{} of locked memory beside an active network adapter", binary_size_text(limit));
}

std::string few_files(const Survey& survey, std::size_t host) {
  const int64_t limit = limit_of(first_rank(survey, host), "open_files");
  return limit < 0 || limit >= kLeastFiles ? "" : fmt::format("{} open files", limit);
}

std::string small_files(const Survey& survey, std::size_t host) {
  const int64_t limit = limit_of(first_rank(survey, host), "file_bytes");
  return limit < 0 ? "" : fmt::format("files of at most {}", binary_size_text(limit));
}

std::string small_space(const Survey& survey, std::size_t host) {
  const int64_t limit = limit_of(first_rank(survey, host), "address_space_bytes");
  return limit < 0 ? "" : fmt::format("an address space of {}", binary_size_text(limit));
}

std::string ports_of(const HostFacts& machine) {
  std::string text;
  for (const FabricPort& port : machine.fabric_ports) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", port.name, port.state, port.rate);
  }
  return text.empty() ? "no adapter" : text;
}

constexpr HostLook kLimitLooks[] = {
    {Severity::warning, "ulimit -l unlimited where ranks start; MPI and NCCL pin what they send (slurmd: LimitMEMLOCK)",
     little_locked},
    {Severity::warning, "ulimit -n 4096: connections between ranks, shards and libraries are all open files",
     few_files},
    {Severity::warning, "ulimit -f unlimited: checkpoints and shards are large files", small_files},
    {Severity::warning, "ulimit -v unlimited: CUDA and MPI reserve far more than they use", small_space},
};

}  // namespace

std::vector<Finding> judge_limits(const Survey& survey) {
  std::vector<Finding> findings = judge_hosts(survey, Area::limits, kLimitLooks);
  std::vector<std::string> ports;
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) ports.push_back(ports_of(survey.machine(host)));
  const auto groups = group_ranks(ports, survey.hosts);
  if (groups.size() > 1) {
    findings.push_back({Severity::warning, Area::limits, "network adapters differ: " + host_groups_text(groups),
                        "leave the odd nodes out (srun --exclude), and tell the administrators"});
  }
  if (!findings.empty()) return findings;
  const ProcessFacts& first = survey.ranks.front();
  const int64_t files = limit_of(first, "open_files");
  return {{Severity::ok, Area::limits,
           fmt::format("locked memory {}, open files {}; network adapters: {}",
                       binary_size_text(limit_of(first, "locked_memory_bytes")),
                       files < 0 ? "unlimited" : std::to_string(files), ports_of(survey.machine(0))),
           ""}};
}

}  // namespace ddpm::doctor
