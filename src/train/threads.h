// How many threads a rank computes with.
#pragma once

#include "comm/launch.h"

namespace ddpm::train {

/// `asked` (run.threads_per_rank) when positive. Else what this rank may use: the CPUs of its affinity mask, or its
/// even share of them when the launcher bound no rank (`affinity_cpus` = `host_cpus` with `local_size` ranks on the
/// host), and no more than SLURM_CPUS_PER_TASK, else OMP_NUM_THREADS, says. At least 1.
int threads_per_rank(int asked, int affinity_cpus, int host_cpus, int local_size, const comm::Environment& environment);

/// CPUs in this process's affinity mask, and CPUs of the host that are online.
int affinity_cpu_count();
int host_cpu_count();

}  // namespace ddpm::train
