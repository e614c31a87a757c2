// Judges memory: how much there is, for whom, and how it is paged.
#include <algorithm>

#include <fmt/format.h>

#include "base/binary_units.h"
#include "base/counted.h"
#include "doctor/judge.h"

namespace ddpm::doctor {
namespace {

// A model of any size needs more; below this not even the libraries have room.
constexpr int64_t kLeastPerRank = base::kGiB;
// Open MPI makes a segment of a few MiB per rank in /dev/shm, NCCL some more; containers often have 64 MiB in all.
constexpr int64_t kLeastSharedPerRank = 16 * base::kMiB;

std::string little_memory(const Survey& survey, std::size_t host) {
  const auto ranks = std::ssize(survey.ranks_of[host]);
  const int64_t usable = survey.machine(host).available_bytes;
  if (usable >= ranks * kLeastPerRank) return "";
  return fmt::format("{} of memory for {}", binary_size_text(usable), base::counted(ranks, "rank"));
}

std::string limited(const Survey& survey, std::size_t host) {
  const HostFacts& machine = survey.machine(host);
  if (machine.memory_limit_bytes < 0 || 2 * machine.memory_limit_bytes > machine.memory_bytes) return "";
  return fmt::format("the job may use {} of {}", binary_size_text(machine.memory_limit_bytes),
                     binary_size_text(machine.memory_bytes));
}

std::string little_shared(const Survey& survey, std::size_t host) {
  const HostFacts& machine = survey.machine(host);
  const auto ranks = std::ssize(survey.ranks_of[host]);
  if (ranks < 2 || machine.shared_memory_free_bytes >= ranks * kLeastSharedPerRank) return "";
  if (machine.shared_memory_bytes == 0) return "no /dev/shm";
  return fmt::format("{} free in /dev/shm for {} ranks", binary_size_text(machine.shared_memory_free_bytes), ranks);
}

/// Hosts whose memory is more than a twentieth below the largest.
std::string smaller(const Survey& survey, std::size_t host) {
  int64_t most = 0;
  for (std::size_t other = 0; other < survey.hosts.size(); ++other)
    most = std::max(most, survey.machine(other).memory_bytes);
  const int64_t own = survey.machine(host).memory_bytes;
  if (own >= most - most / 20) return "";
  return fmt::format("{} of memory, others have {},", binary_size_text(own), binary_size_text(most));
}

std::string no_huge_pages(const Survey& survey, std::size_t host) {
  return survey.machine(host).huge_pages == "never" ? "no transparent huge pages" : "";
}

constexpr HostLook kMemoryLooks[] = {
    {Severity::warning,
     "start fewer ranks per node, or end what else takes memory there; ddpm plan says what a run needs", little_memory},
    {Severity::note, "ask for all of a node's memory if a run needs it: srun --mem=0", limited},
    {Severity::warning,
     "enlarge it: MPI and NCCL pass messages through it (docker run --shm-size=1g, or mount -o remount)",
     little_shared},
    {Severity::note, "ask for nodes of one kind: a run must fit the smallest", smaller},
    {Severity::note, "choose madvise: training on CPUs is faster on large pages", no_huge_pages},
};

}  // namespace

std::vector<Finding> judge_memory(const Survey& survey) {
  std::vector<Finding> findings = judge_hosts(survey, Area::memory, kMemoryLooks);
  if (!findings.empty()) return findings;
  int64_t least = survey.machine(0).available_bytes;
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) {
    least = std::min(least, survey.machine(host).available_bytes / std::ssize(survey.ranks_of[host]));
  }
  return {{Severity::ok, Area::memory, fmt::format("{} or more available per rank", binary_size_text(least)), ""}};
}

}  // namespace ddpm::doctor
