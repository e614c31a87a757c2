// How many threads a rank computes with, and on which CPUs.
#pragma once

#include <vector>

#include "comm/launch.h"
#include "comm/mpi_session.h"

namespace ddpm::device {

/// Returns `asked` (run.threads_per_rank) when it is positive, and otherwise what this rank may use: the CPUs of its
/// affinity mask, or its even share of them when the launcher bound no rank (`affinity_cpus` = `host_cpus` with
/// `local_size` ranks on the host), and no more than SLURM_CPUS_PER_TASK says, or OMP_NUM_THREADS if that is not set.
/// At least 1.
int threads_per_rank(int asked, int affinity_cpus, int host_cpus, int local_size, const comm::Environment& environment);

/// Returns threads_per_rank() for this process, from the CPUs of its host.
int threads_per_rank(int asked, int local_size);

/// Returns how many CPUs of the host are online.
int host_cpu_count();

/// OpenMP, where OMP_PROC_BIND or OMP_PLACES asks it to bind threads, binds the first one to one place before main()
/// begins: all threads that it starts outside OpenMP would stay there too, and would count one CPU. This gives it all
/// places back; OpenMP's other threads stay bound. Call it before any thread is started.
void release_first_thread();

/// Has LibTorch compute with threads_per_rank(), each of them but the calling one on a CPU of its own where these are
/// this rank's alone: the launcher bound it to as many CPUs as threads, which no other rank of the host may use, and
/// OpenMP has not been told otherwise. Where `same_on_ranks`, all ranks take as many as the one that has fewest: with
/// other numbers sums have other last bits. Collective.
void start_threads(int asked, comm::MpiSession& session, bool same_on_ranks = false);

/// Whether `own` are the CPUs of one rank of `ranks` (of one host, it among them) alone. No rank has CPUs alone where
/// the launcher bound none, so that `own` are all `host_cpus` of the host.
bool are_its_own(const std::vector<int>& own, const std::vector<std::vector<int>>& ranks, int host_cpus);
/// Binds LibTorch's threads but the calling one to one each of `cpus`, of which there are as many as threads.
void pin_threads(const std::vector<int>& cpus);

}  // namespace ddpm::device
