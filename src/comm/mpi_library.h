// Which MPI this process runs with, and what one MPI library wants otherwise than another: no other file asks.
//
// The libraries differ in how they are started and how they wait, and in nothing else that this program relies on: Open
// MPI finds Slurm through PMIx, MPICH and its relatives (Cray's, Intel's) through PMI-1, PMI-2 or the site's own
// plugin.
#pragma once

#include <string>
#include <string_view>

namespace ddpm::comm {

/// "Open MPI v4.1.4", "MPICH 4.0.2" and the like: what MPI_Get_library_version says, by name_of_library().
std::string mpi_library_version();
/// Name and version in the first line of what an MPI library says of itself. Libraries have this in several forms.
std::string name_of_library(std::string_view said);
/// The thread level that MPI provides: "single", "funneled", "serialized", "multiple". After MPI_Init.
std::string mpi_thread_level();

/// How ranks of this MPI are started, for messages: "start it with srun --mpi=pmix ...".
std::string_view launch_advice();

/// What to do where MPI provides no MPI_THREAD_MULTIPLE, for messages.
std::string_view thread_advice();

/// Whether MPI_Init ends a task of srun that has no PMIx server, in place of returning an error or a world of one.
bool needs_pmix();

/// Whether a rank in MPI_Wait lets others have its processor where there are more ranks than processors. Where it does
/// not, ranks that wait keep those from computing that they wait for.
bool yields_while_waiting();

/// Before MPI_Init: MPI is handed the host's memory alone. Cray MPICH that is told to take that of GPUs
/// (MPICH_GPU_SUPPORT_ENABLED, which modules of some sites set) ends programs that are not linked with a library of its
/// own for it.
void expect_host_memory();

/// Before MPI_Init of a process that no launcher started: it has nobody to talk to.
void expect_one_process();

}  // namespace ddpm::comm
