#include "comm/mpi_library.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <mpi.h>

namespace ddpm::comm {

#ifdef OPEN_MPI

std::string_view launch_advice() {
  return "start it with srun --mpi=pmix (DDPM_SRUN_MPI=pmix for the job scripts), flux run -o pmi=pmix, "
         "or with the mpirun of the MPI library it was built with";
}

bool needs_pmix() { return true; }

bool yields_while_waiting() { return true; }  // mpi_yield_when_idle, which mpirun sets where it starts more ranks

// Left to itself, Open MPI starts a daemon for a single process and looks at network adapters (libpsm2 takes 0.2 s), a
// third of a second in all. Isolated like this, all processes of a user would share one session folder, of job family
// 0, and remove it under each other's feet; one process needs none. What the user has set stays.
void expect_one_process() {
  setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv("OMPI_MCA_btl", "self", 0);
}

#else

std::string_view launch_advice() {
  return "start it with srun --mpi=pmi2, or cray_shasta on Cray systems (DDPM_SRUN_MPI for the job scripts), flux run, "
         "or with the mpiexec of the MPI library it was built with";
}

bool needs_pmix() { return false; }

bool yields_while_waiting() { return false; }

void expect_one_process() {}

#endif

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  std::string first = whole.substr(0, whole.find_first_of(",\n"));
  // "MPICH Version:\t4.0.2"
  if (const auto colon = first.find(" Version:"); colon != std::string::npos) {
    const std::size_t number = std::min(first.find_first_not_of(" \t", colon + std::strlen(" Version:")), first.size());
    first = first.substr(0, colon) + " " + first.substr(number);
  }
  return first;
}

std::string mpi_thread_level() {
  int level = MPI_THREAD_SINGLE;
  if (MPI_Query_thread(&level) != MPI_SUCCESS) return "unknown";
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "single";
    case MPI_THREAD_FUNNELED:
      return "funneled";
    case MPI_THREAD_SERIALIZED:
      return "serialized";
    default:
      return "multiple";
  }
}

}  // namespace ddpm::comm
