// Counts the program's MPI calls, through MPI's profiling interface.
#pragma once

#include <map>
#include <string>

namespace ddpm::test {

struct MpiCalls {
  int all_reduce = 0;
  int reduce_scatter = 0;
  int reduce = 0;
  int all_gather = 0;
  int broadcast = 0;
  int send = 0;
  int receive = 0;
  int communicators = 0;  ///< that were made
  /// The next MPI_Iallreduce returns this instead of being made, unless 0 (MPI_SUCCESS).
  int fail_next_all_reduce = 0;
};

/// Since the start of the program. Reset it by assigning {}.
MpiCalls& mpi_calls();

/// The environment as MPI_Init_thread found it.
std::map<std::string, std::string>& environment_at_start();

}  // namespace ddpm::test
