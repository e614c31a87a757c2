#include "comm/mpi_library.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <mpi.h>

namespace ddpm::comm {

#ifdef OPEN_MPI

std::string_view launch_advice() {
  return "start it with srun --mpi=pmix (DDPM_SRUN_MPI=pmix for the job scripts), flux run -o pmi=pmix, "
         "or with the mpirun of the MPI library it was built with";
}

std::string_view thread_advice() { return "use an MPI built for it"; }

bool needs_pmix() { return true; }

bool yields_while_waiting() { return true; }  // mpi_yield_when_idle, which mpirun sets where it starts more ranks

void expect_host_memory() {}

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

std::string_view thread_advice() {
  return "set MPICH_MAX_THREAD_SAFETY=multiple (Cray MPICH), or use an MPI built for it";
}

bool needs_pmix() { return false; }

bool yields_while_waiting() { return false; }

void expect_host_memory() {
  constexpr const char* kVariable = "MPICH_GPU_SUPPORT_ENABLED";
  if (std::getenv(kVariable) != nullptr) setenv(kVariable, "0", 1);  // NOLINT(concurrency-mt-unsafe): as setenv()
}

void expect_one_process() {}

#endif

std::string name_of_library(std::string_view said) {
  std::string first(said.substr(0, said.find_first_of(",\n")));
  const auto behind = [&first](std::size_t at) {
    return first.substr(std::min(first.find_first_not_of(" \t:", at), first.size()));
  };
  // "MPICH Version:\t4.0.2"
  constexpr std::string_view kVersion = " Version:";
  if (const auto at = first.find(kVersion); at != std::string::npos) {
    return first.substr(0, at) + " " + behind(at + kVersion.size());
  }
  // "MPI VERSION    : CRAY MPICH version 8.1.28 (ANL base 3.4a2)"
  constexpr std::string_view kCray = "MPI VERSION";
  if (!first.starts_with(kCray)) return first;
  first = behind(kCray.size());
  first = first.substr(0, first.find(" ("));
  constexpr std::string_view kWord = " version ";
  if (const auto at = first.find(kWord); at != std::string::npos) first.replace(at, kWord.size(), " ");
  return first;
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  return name_of_library({text.data(), static_cast<std::size_t>(length)});
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
