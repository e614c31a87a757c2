// GPUs: what each rank sees, and whether it has one of its own.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "device/device_library.h"
#include "device/gpu_choice.h"
#include "doctor/groups.h"
#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

const ProcessFacts& rank_of(const Survey& survey, std::size_t host, std::size_t local) {
  return survey.ranks[static_cast<std::size_t>(survey.ranks_of[host][local])];
}

/// Ranks of a host that see GPUs, and what they see.
struct Seers {
  std::vector<int> ranks;
  std::vector<device::SeenGpus> gpus;
};

Seers seers_of(const Survey& survey, std::size_t host) {
  Seers seers;
  for (const int rank : survey.ranks_of[host]) {
    const device::DeviceFacts& facts = survey.ranks[static_cast<std::size_t>(rank)].gpus;
    if (facts.gpus.empty()) continue;
    seers.ranks.push_back(rank);
    seers.gpus.push_back(device::seen_gpus(facts));
  }
  return seers;
}

std::string too_few(const Survey& survey, std::size_t host) {
  const auto shortage = device::own_gpus(seers_of(survey, host).gpus).shortage;
  return shortage ? fmt::format("{} ranks see {} GPUs", shortage->ranks, shortage->gpus) : "";
}

std::string idle(const Survey& survey, std::size_t host) {
  const std::size_t gpus = rank_of(survey, host, 0).gpus.gpus.size();
  const std::size_t ranks = survey.ranks_of[host].size();
  if (gpus <= ranks) return "";
  return fmt::format("{} {} {} GPUs", base::counted(ranks, "rank"), ranks == 1 ? "sees" : "see", gpus);
}

/// Ranks that the choice of training gives one and the same GPU.
std::string shared(const Survey& survey, std::size_t host) {
  const Seers seers = seers_of(survey, host);
  const device::GpuChoice choice = device::own_gpus(seers.gpus);
  if (choice.shortage) return "";
  std::map<std::string, std::vector<int>> users;
  for (std::size_t i = 0; i < seers.ranks.size(); ++i) {
    const std::string& gpu = seers.gpus[i].at(static_cast<std::size_t>(choice.of_rank[i]));
    if (!gpu.empty()) users[gpu].push_back(seers.ranks[i]);
  }
  for (const auto& [bus_id, ranks] : users) {
    if (ranks.size() > 1) return fmt::format("ranks {} share GPU {}", ranges_text(ranks), bus_id);
  }
  return "";
}

std::string without_peers(const Survey& survey, std::size_t host) {
  const auto& access = rank_of(survey, host, 0).gpus.peer_access;
  for (std::size_t i = 0; i < access.size(); ++i) {
    for (std::size_t j = i + 1; j < access[i].size(); ++j) {
      if (access[i][j] == 0) return fmt::format("GPUs {} and {} cannot reach each other's memory", i, j);
    }
  }
  return "";
}

std::string kinds_of(const ProcessFacts& rank) {
  std::map<std::string, int> counts;
  for (const auto& gpu : rank.gpus.gpus) ++counts[gpu.name];
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", count, name);
  }
  return text.empty() ? "none" : text;
}

/// Ranks with and without a GPU, or with GPUs of different kinds.
std::vector<Finding> differences(const Survey& survey) {
  std::vector<std::string> kinds;
  for (const ProcessFacts& rank : survey.ranks) kinds.push_back(kinds_of(rank));
  const auto groups = group_ranks(kinds, survey.rank_hosts());
  if (groups.size() < 2) return {};
  const bool missing = std::ranges::any_of(groups, [](const RankGroup& group) { return group.value == "none"; });
  return {{Severity::warning, Area::devices, groups_text(groups),
           missing ? "leave the hosts without a GPU out (srun --exclude): with run.device = \"auto\" all would compute "
                     "on CPUs"
                   : "ask for nodes of one kind: all ranks wait for the slowest GPU"}};
}

/// GPUs on which training in bf16, which `ddpm config new` writes for newer ones, would be refused.
std::string without_bf16(const Survey& survey, std::size_t host) {
  for (const auto& gpu : rank_of(survey, host, 0).gpus.gpus) {
    if (!device::has_bf16(gpu))
      return fmt::format("{} (compute capability {}.{}) has no bf16", gpu.name, gpu.capability / 10,
                         gpu.capability % 10);
  }
  return "";
}

std::vector<Finding> failures(const Survey& survey) {
  std::vector<std::string> texts;
  for (const ProcessFacts& rank : survey.ranks) texts.push_back(rank.gpu_problem);
  std::vector<Finding> findings;
  for (const RankGroup& group : group_ranks(texts, survey.rank_hosts())) {
    if (group.value.empty()) continue;
    findings.push_back(
        {Severity::warning, Area::devices, fmt::format("{}; {}", group.value, who(group.ranks, group.hosts)),
         "training would compute on CPUs; build with the CMake preset cuda, or see what nvidia-smi says"});
  }
  return findings;
}

}  // namespace

bool gpus_of_their_own(const Survey& survey) {
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) {
    if (!too_few(survey, host).empty() || !shared(survey, host).empty()) return false;
  }
  return std::ranges::none_of(survey.ranks, [](const ProcessFacts& rank) { return rank.gpus.gpus.empty(); });
}

std::vector<Finding> judge_devices(const Survey& survey) {
  std::vector<Finding> findings = failures(survey);
  append(findings, differences(survey));
  const auto look = [&](Severity severity, const std::string& advice, std::string (*one)(const Survey&, std::size_t)) {
    append(findings,
           judge_hosts(survey, severity, Area::devices, advice, [&](std::size_t host) { return one(survey, host); }));
  };
  look(
      Severity::problem,
      "start one rank per GPU (srun --ntasks-per-node) and show it all of its node (--gpus-per-node=N --gpu-bind=none)",
      too_few);
  look(Severity::warning, "start one rank per GPU, and show it all of its node: srun --gpus-per-node=N --gpu-bind=none",
       shared);
  look(Severity::note, "start one rank per GPU to use them all", idle);
  look(Severity::note, "train with precision.mixed_precision = \"fp16\"", without_bf16);
  look(Severity::note, "NCCL then goes through host memory; in virtual machines see PCI access control (ACS)",
       without_peers);
  if (!findings.empty()) return findings;
  const ProcessFacts& first = survey.ranks.front();
  if (first.gpus.gpus.empty()) {
    return {{Severity::ok, Area::devices, "no NVIDIA driver: training computes on CPUs", ""}};
  }
  return {{Severity::ok, Area::devices,
           fmt::format("{} for each rank to choose from; driver {}, CUDA {} (it knows {}), NCCL {}", kinds_of(first),
                       first.machine.gpu_driver, first.gpus.runtime, first.gpus.driver, first.gpus.nccl),
           ""}};
}

}  // namespace ddpm::doctor
