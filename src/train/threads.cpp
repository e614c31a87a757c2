#include "train/threads.h"

#include <algorithm>
#include <cstdlib>

#include <sched.h>
#include <unistd.h>

namespace ddpm::train {
namespace {

/// The variable as a positive number, else 0 ("4,2" of a nested OMP_NUM_THREADS is 4).
int positive(const std::optional<std::string>& text) { return text ? std::max(0, std::atoi(text->c_str())) : 0; }

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

int affinity_cpu_count() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return host_cpu_count();  // more CPUs than cpu_set_t holds
  return CPU_COUNT(&mask);
}

int host_cpu_count() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

}  // namespace ddpm::train
