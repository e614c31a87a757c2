// Which MPI this process runs with.
#pragma once

#include <string>

namespace ddpm::comm {

/// "Open MPI v4.1.4" and the like: the first part of what MPI_Get_library_version says.
std::string mpi_library_version();
/// The thread level that MPI provides: "single", "funneled", "serialized", "multiple". After MPI_Init.
std::string mpi_thread_level();

}  // namespace ddpm::comm
