// Judges memory, and the limits that a shell or a job sets.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "doctor/groups.h"
#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// A model of any size needs more; below this not even the libraries have room.
constexpr int64_t kLeastPerRank = kGiB;
// Open MPI makes a segment of a few MiB per rank in /dev/shm, NCCL some more; containers often have 64 MiB in all.
constexpr int64_t kLeastSharedPerRank = 16 * kMiB;
// What InfiniBand adapters may pin. Registered buffers are as large as messages.
constexpr int64_t kLeastLocked = kGiB;
constexpr int64_t kLeastFiles = 1024;

std::string little_memory(const Survey& survey, std::size_t host) {
  const auto ranks = std::ssize(survey.ranks_of[host]);
  const int64_t usable = survey.machine(host).available_bytes;
  if (usable >= ranks * kLeastPerRank) return "";
  return fmt::format("{} of memory for {} rank{}", bytes_text(usable), ranks, ranks == 1 ? "" : "s");
}

std::string limited(const Survey& survey, std::size_t host) {
  const HostFacts& machine = survey.machine(host);
  if (machine.memory_limit_bytes < 0 || 2 * machine.memory_limit_bytes > machine.memory_bytes) return "";
  return fmt::format("the job may use {} of {}", bytes_text(machine.memory_limit_bytes),
                     bytes_text(machine.memory_bytes));
}

std::string little_shared(const Survey& survey, std::size_t host) {
  const HostFacts& machine = survey.machine(host);
  const auto ranks = std::ssize(survey.ranks_of[host]);
  if (ranks < 2 || machine.shared_memory_free_bytes >= ranks * kLeastSharedPerRank) return "";
  if (machine.shared_memory_bytes == 0) return "no /dev/shm";
  return fmt::format("{} free in /dev/shm for {} ranks", bytes_text(machine.shared_memory_free_bytes), ranks);
}

/// Hosts whose memory is more than a twentieth below the largest.
std::string smaller(const Survey& survey, std::size_t host) {
  int64_t most = 0;
  for (std::size_t other = 0; other < survey.hosts.size(); ++other)
    most = std::max(most, survey.machine(other).memory_bytes);
  const int64_t own = survey.machine(host).memory_bytes;
  if (own >= most - most / 20) return "";
  return fmt::format("{} of memory, others have {},", bytes_text(own), bytes_text(most));
}

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
  return fmt::format("{} of locked memory beside an active network adapter", bytes_text(limit));
}

std::string few_files(const Survey& survey, std::size_t host) {
  const int64_t limit = limit_of(first_rank(survey, host), "open_files");
  return limit < 0 || limit >= kLeastFiles ? "" : fmt::format("{} open files", limit);
}

std::string small_files(const Survey& survey, std::size_t host) {
  const int64_t limit = limit_of(first_rank(survey, host), "file_bytes");
  return limit < 0 ? "" : fmt::format("files of at most {}", bytes_text(limit));
}

std::string small_space(const Survey& survey, std::size_t host) {
  const int64_t limit = limit_of(first_rank(survey, host), "address_space_bytes");
  return limit < 0 ? "" : fmt::format("an address space of {}", bytes_text(limit));
}

std::string ports_of(const HostFacts& machine) {
  std::string text;
  for (const FabricPort& port : machine.fabric_ports) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", port.name, port.state, port.rate);
  }
  return text.empty() ? "no adapter" : text;
}

}  // namespace

std::vector<Finding> judge_memory(const Survey& survey) {
  std::vector<Finding> findings;
  const auto look = [&](Severity severity, const std::string& advice, std::string (*one)(const Survey&, std::size_t)) {
    append(findings,
           judge_hosts(survey, severity, Area::memory, advice, [&](std::size_t host) { return one(survey, host); }));
  };
  look(Severity::warning,
       "start fewer ranks per node, or end what else takes memory there; ddpm plan says what a run needs",
       little_memory);
  look(Severity::note, "ask for all of a node's memory if a run needs it: srun --mem=0", limited);
  look(Severity::warning,
       "enlarge it: MPI and NCCL pass messages through it (docker run --shm-size=1g, or mount -o remount)",
       little_shared);
  look(Severity::note, "ask for nodes of one kind: a run must fit the smallest", smaller);
  look(Severity::note, "choose madvise: training on CPUs is faster on large pages",
       [](const Survey& s, std::size_t host) {
         return std::string(s.machine(host).huge_pages == "never" ? "no transparent huge pages" : "");
       });
  if (!findings.empty()) return findings;
  int64_t least = survey.machine(0).available_bytes;
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) {
    least = std::min(least, survey.machine(host).available_bytes / std::ssize(survey.ranks_of[host]));
  }
  return {{Severity::ok, Area::memory, fmt::format("{} or more available per rank", bytes_text(least)), ""}};
}

std::vector<Finding> judge_limits(const Survey& survey) {
  std::vector<Finding> findings;
  const auto look = [&](Severity severity, const std::string& advice, std::string (*one)(const Survey&, std::size_t)) {
    append(findings,
           judge_hosts(survey, severity, Area::limits, advice, [&](std::size_t host) { return one(survey, host); }));
  };
  look(Severity::warning,
       "ulimit -l unlimited where ranks start; MPI and NCCL pin what they send (slurmd: LimitMEMLOCK)", little_locked);
  look(Severity::warning, "ulimit -n 4096: connections between ranks, shards and libraries are all open files",
       few_files);
  look(Severity::warning, "ulimit -f unlimited: checkpoints and shards are large files", small_files);
  look(Severity::warning, "ulimit -v unlimited: CUDA and MPI reserve far more than they use", small_space);
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
                       bytes_text(limit_of(first, "locked_memory_bytes")),
                       files < 0 ? "unlimited" : std::to_string(files), ports_of(survey.machine(0))),
           ""}};
}

}  // namespace ddpm::doctor
