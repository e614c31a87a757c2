// What the launcher's environment promised, held against what MPI found.
//
// Without working PMI, `srun -n 4` starts four processes that each believe to be rank 0 of 1: they would train four
// times and write over each other. The same happens when a batch script forgets srun.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/named.h"
#include "comm/job.h"

namespace ddpm::comm {

/// Throws CommunicationError (exit code 5), which says how to start the job, when `environment` promises more ranks
/// than the `world_size` that MPI found. Looked at, first found first:
///   OMPI_COMM_WORLD_SIZE, PMI_SIZE           ranks of this mpirun or mpiexec
///   FLUX_JOB_SIZE                             tasks of this flux run; a batch script of Flux has none
///   SLURM_STEP_NUM_TASKS, with SLURM_STEP_ID  tasks of this job step (srun)
///   launched_rank(), PALS_LOCAL_SIZE          how many there are at least, where HPE's PALS tells nothing more
///   SLURM_NTASKS, lines of PBS_NODEFILE       ranks of the job, when a batch script runs the program bare
/// For subcommands that share their work between ranks (train, sample, data create). The others may run bare as one
/// rank inside a batch job.
void check_launch(int world_size, const Environment& environment);

/// Seconds of a time limit, 0 for none: the value of `variable`, or `otherwise` where it is not set or empty. Throws
/// ConfigError for what is not a number of seconds.
double seconds_of(const Environment& environment, const std::string& variable, double otherwise);

/// This process's rank as its launcher numbers it, before MPI knows it; none when it was started bare, or by a launcher
/// that is not known here. A hint: who speaks before MPI has started, and whether a command that shares no work starts
/// it. Ranks and their number are those of MPI alone.
std::optional<std::string> launched_rank(const Environment& environment);

/// Whether this process is the one that speaks before MPI has said who is who.
bool launched_as_first(const Environment& environment);

/// What starts programs as ranks. `mpirun` is Open MPI's, `mpiexec` that of MPICH and its relatives, or HPE's PALS, and
/// whatever else tells ranks of themselves through PMI or PMIx.
enum class Launcher : uint8_t { none, mpirun, mpiexec, flux, srun };
constexpr auto names_of(Launcher /*type*/) {
  return std::to_array<std::string_view>({"bare", "mpirun", "mpiexec", "flux", "srun"});
}

/// The launcher that is nearest to this process: the mpirun in a job of Slurm, whose daemons srun may have started.
Launcher launched_by(const Environment& environment);

/// Its name, and the job's number where it belongs to a batch system: "srun (job 5)", "flux (job f3)", "mpirun",
/// "mpiexec", "bare".
std::string launcher_name(const Environment& environment);

/// Whether srun itself started this process as a rank, rather than an mpirun inside a Slurm job.
bool launched_by_srun(const Environment& environment);

/// Whether this is a task of an srun that offers no PMIx server, without which Open MPI has no world; a shell of
/// `srun --pty` and all that it starts are such tasks, too.
bool lacks_pmix(const Environment& environment);
/// Throws CommunicationError where lacks_pmix().
void check_pmix(const Environment& environment);

/// Has the kernel kill this process when the mpirun or orted that started it dies: Open MPI leaves its ranks behind.
/// Does nothing under another parent (a shell, slurmstepd, which looks after its tasks itself).
void die_with_launcher();

}  // namespace ddpm::comm
