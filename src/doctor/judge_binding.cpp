// Judges which ranks may use which CPUs, and whether all CPUs are used.
#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "base/counted.h"
#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

/// The CPUs of one host, and what its ranks make of them.
struct Binding {
  std::vector<int> usable;  ///< CPUs that any rank may use, ascending
  int threads = 0;          ///< threads of all ranks together
  bool bound = false;       ///< some ranks may use other CPUs than others
  std::string shared;       ///< the first two ranks that share CPUs: "ranks 0 and 1 share CPUs 0-3"
};

std::vector<int> common(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

Binding binding_of(const Survey& survey, std::size_t host) {
  Binding binding;
  const auto& ranks = survey.ranks_of[host];
  const auto facts = [&](int rank) -> const ProcessFacts& { return survey.ranks[static_cast<std::size_t>(rank)]; };
  std::set<int> usable;
  for (const int rank : ranks) {
    usable.insert(facts(rank).cpus.begin(), facts(rank).cpus.end());
    binding.threads += facts(rank).threads;
  }
  binding.usable.assign(usable.begin(), usable.end());
  for (const int rank : ranks) binding.bound = binding.bound || facts(rank).cpus != binding.usable;
  // All ranks use fewer CPUs than the host has: they were bound to the same ones.
  const auto& online = survey.machine(host).cpus;
  const bool same_place = ranks.size() > 1 && binding.usable.size() < std::min(ranks.size(), online.size());
  for (std::size_t i = 0; i < ranks.size() && binding.shared.empty() && (binding.bound || same_place); ++i) {
    for (std::size_t j = i + 1; j < ranks.size() && binding.shared.empty(); ++j) {
      const auto both = common(facts(ranks[i]).cpus, facts(ranks[j]).cpus);
      if (both.empty()) continue;
      binding.shared = fmt::format("ranks {} and {} share {} {}", ranks[i], ranks[j],
                                   base::plural(both.size() == 1, "CPU"), ranges_text(both));
    }
  }
  return binding;
}

std::size_t cores_in(const HostFacts& machine, const std::vector<int>& cpus) {
  std::set<int> cores;
  for (std::size_t i = 0; i < machine.cpus.size() && i < machine.cores.size(); ++i) {
    if (std::ranges::binary_search(cpus, machine.cpus[i])) cores.insert(machine.cores[i]);
  }
  return cores.size();
}

std::size_t nodes_in(const HostFacts& machine, const std::vector<int>& cpus) {
  return static_cast<std::size_t>(std::ranges::count_if(
      machine.numa_nodes, [&](const std::vector<int>& node) { return !common(node, cpus).empty(); }));
}

std::string over_nodes(const Survey& survey, std::size_t host) {
  const HostFacts& machine = survey.machine(host);
  if (survey.ranks_of[host].size() < 2) return "";
  for (const int rank : survey.ranks_of[host]) {
    const auto& cpus = survey.ranks[static_cast<std::size_t>(rank)].cpus;
    const std::size_t nodes = nodes_in(machine, cpus);
    if (nodes > 1) return fmt::format("a rank's CPUs lie in {} NUMA nodes", nodes);
  }
  return "";
}

std::string overbooked(const Survey& survey, std::size_t host) {
  const Binding binding = binding_of(survey, host);
  const double limit = survey.machine(host).cpu_limit;
  const auto cpus = static_cast<int>(binding.usable.size());
  if (limit > 0.0 && limit < 0.99 * std::min(binding.threads, cpus)) {
    return fmt::format("{} may use {}, but the cgroup gives the time of {:.3g} CPUs",
                       base::counted(binding.threads, "thread"), base::counted(cpus, "CPU"), limit);
  }
  if (binding.threads <= cpus || cpus == 0) return "";
  return fmt::format("{} with {} on {}",
                     survey.ranks_of[host].size() == 1 ? "1 rank computes"
                                                       : fmt::format("{} ranks compute", survey.ranks_of[host].size()),
                     base::counted(binding.threads, "thread"), base::counted(cpus, "CPU"));
}

std::string idle(const Survey& survey, std::size_t host) {
  const Binding binding = binding_of(survey, host);
  const auto cores = static_cast<int>(cores_in(survey.machine(host), binding.usable));
  if (2 * binding.threads > cores) return "";
  return fmt::format("{} on {} cores that the ranks may use", base::counted(binding.threads, "thread"), cores);
}

/// mpirun binds each of two ranks to one core, which leaves many cores unused.
std::string left_out(const Survey& survey, std::size_t host) {
  const HostFacts& machine = survey.machine(host);
  const auto& ranks = survey.ranks_of[host];
  const Binding binding = binding_of(survey, host);
  if (!binding.shared.empty()) return "";  // another finding already gives this advice
  const std::size_t usable = cores_in(machine, binding.usable);
  if (usable == 0) return "";  // the kernel did not say
  std::size_t allowed = cores_in(machine, machine.cpuset.empty() ? machine.cpus : machine.cpuset);
  for (const int rank : ranks) {
    const auto allocated = static_cast<std::size_t>(survey.ranks[static_cast<std::size_t>(rank)].allocated_cpus);
    // Slurm counts hardware threads.
    if (allocated > 0) allowed = std::min(allowed, allocated * cores_in(machine, machine.cpus) / machine.cpus.size());
  }
  if (2 * usable > allowed) return "";
  return fmt::format("{} {} bound to {} of the job's {} cores", base::counted(ranks.size(), "rank"),
                     ranks.size() == 1 ? "is" : "are", usable, allowed);
}

std::string on_hyperthreads(const Survey& survey, std::size_t host) {
  const Binding binding = binding_of(survey, host);
  const auto cores = static_cast<int>(cores_in(survey.machine(host), binding.usable));
  const auto cpus = static_cast<int>(binding.usable.size());
  if (binding.threads <= cores || binding.threads > cpus) return "";
  return fmt::format("{} on {}", base::counted(binding.threads, "thread"), base::counted(cores, "core"));
}

std::string busy(const Survey& survey, std::size_t host) {
  const HostFacts& machine = survey.machine(host);
  const auto cpus = static_cast<double>(machine.cpus.size());
  if (machine.load < std::max(1.0, 0.5 * cpus)) return "";
  return fmt::format("{:.0f} processes wanted {} CPUs before this program came", machine.load, machine.cpus.size());
}

}  // namespace

std::vector<Finding> judge_binding(const Survey& survey) {
  std::vector<Finding> findings;
  const auto look = [&](Severity severity, const std::string& advice, std::string (*one)(const Survey&, std::size_t)) {
    append(findings,
           judge_hosts(survey, severity, Area::binding, advice, [&](std::size_t host) { return one(survey, host); }));
  };
  look(Severity::warning, "give each rank its own: srun --cpu-bind=cores --cpus-per-task=N, mpirun --map-by slot:PE=N",
       [](const Survey& s, std::size_t host) { return binding_of(s, host).shared; });
  look(Severity::warning, "start fewer ranks, or lower OMP_NUM_THREADS; the threads will wait for each other",
       overbooked);
  look(Severity::warning,
       "raise --cpus-per-task or OMP_NUM_THREADS (run.threads_per_rank sets it in the configuration)", idle);
  // A rank with a GPU needs few cores.
  if (!gpus_of_their_own(survey)) {
    look(Severity::warning,
         "let the ranks use them: srun --cpus-per-task=N, mpirun --map-by slot:PE=N, or --bind-to none", left_out);
  }
  look(Severity::warning, "bind each rank within one: srun --cpu-bind=ldoms, mpirun --map-by numa:PE=N", over_nodes);
  look(Severity::note, "one thread per core is mostly faster: srun --hint=nomultithread", on_hyperthreads);
  look(Severity::note, "find their owner with top; ask the administrators to end processes of an earlier job", busy);
  if (!findings.empty()) return findings;
  const ProcessFacts& first = survey.ranks.front();
  bool bound = false;
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) bound = bound || binding_of(survey, host).bound;
  const bool alone = survey.ranks.size() == survey.hosts.size();
  return {{Severity::ok, Area::binding,
           fmt::format("{} per rank{}", base::counted(first.threads, "thread"),
                       alone   ? ", one rank per host"
                       : bound ? ", each rank on CPUs of its own"
                               : "; ranks are not bound, and share the host's CPUs evenly"),
           ""}};
}

}  // namespace ddpm::doctor
