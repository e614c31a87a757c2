#include "device/threads.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <unistd.h>

#include "comm/collectives.h"
#include "device/affinity.h"

namespace ddpm::device {
namespace {

/// Returns the variable as a positive number, or 0 ("4,2" of a nested OMP_NUM_THREADS is 4).
int positive(const std::optional<std::string>& text) { return text ? std::max(0, std::atoi(text->c_str())) : 0; }

bool openmp_binds() { return omp_get_proc_bind() != omp_proc_bind_false; }

}  // namespace

int threads_per_rank(int asked, int affinity_cpus, int host_cpus, int local_size,
                     const comm::Environment& environment) {
  if (asked > 0) return asked;
  int threads = affinity_cpus;
  if (affinity_cpus >= host_cpus && local_size > 1) threads = affinity_cpus / local_size;
  const int slurm = positive(environment("SLURM_CPUS_PER_TASK"));
  const int limit = slurm > 0 ? slurm : positive(environment("OMP_NUM_THREADS"));
  if (limit > 0) threads = std::min(threads, limit);
  return std::max(1, threads);
}

int threads_per_rank(int asked, int local_size) {
  const auto cpus = static_cast<int>(affinity_cpus().size());
  return threads_per_rank(asked, cpus == 0 ? host_cpu_count() : cpus, host_cpu_count(), local_size,
                          comm::process_environment());
}

int host_cpu_count() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

void release_first_thread() {
  if (!openmp_binds()) return;
  std::vector<int> cpus = affinity_cpus();
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> more(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, more.data());
    cpus.insert(cpus.end(), more.begin(), more.end());
  }
  set_affinity(cpus);
}

void start_threads(int asked, comm::MpiSession& session, bool same_on_ranks) {
  int threads = threads_per_rank(asked, session.local_size());
  if (same_on_ranks) {
    threads = static_cast<int>(comm::all_reduce(session.world(), int64_t{threads}, comm::ReduceOp::min));
  }
  at::set_num_threads(threads);
  const std::vector<int> own = affinity_cpus();
  const std::vector<std::string> all =
      comm::all_gather(session.world(), fmt::format("{} {}", session.host_name(), fmt::join(own, " ")));
  if (openmp_binds() || threads == 1 || static_cast<std::size_t>(threads) != own.size()) return;
  std::vector<std::vector<int>> ranks;
  for (const std::string& rank : all) {
    std::istringstream words(rank);
    std::string host;
    words >> host;
    if (host != session.host_name()) continue;
    auto& cpus = ranks.emplace_back();
    for (int cpu = 0; words >> cpu;) cpus.push_back(cpu);
  }
  if (are_its_own(own, ranks, host_cpu_count())) pin_threads(own);
}

bool are_its_own(const std::vector<int>& own, const std::vector<std::vector<int>>& ranks, int host_cpus) {
  if (own.size() >= static_cast<std::size_t>(host_cpus)) return false;
  const auto users = [&ranks](int cpu) {
    return std::ranges::count_if(ranks, [cpu](const auto& rank) { return std::ranges::binary_search(rank, cpu); });
  };
  return std::ranges::all_of(own, [&](int cpu) { return users(cpu) == 1; });
}

void pin_threads(const std::vector<int>& cpus) {
  const auto count = static_cast<int64_t>(cpus.size());
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    const auto thread = static_cast<std::size_t>(at::get_thread_num());
    if (thread > 0 && end - begin == 1 && thread < cpus.size()) set_affinity(std::span(cpus).subspan(thread, 1));
  });
}

}  // namespace ddpm::device
