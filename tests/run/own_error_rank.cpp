// own_error_rank start|end|some|stuck: a program of which one call to MPI fails on rank 1 alone: where the ranks come
// together (start), or where they part after an error on which they agreed (end); it may also never return there
// (stuck). With `some`, ranks 1 to 3 have errors
// of their own within a moment, of which the others know nothing.
#include <chrono>
#include <string_view>
#include <thread>

#include <mpi.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "run/run_program.h"

namespace {

bool duplicates_fail = false;
bool barriers_fail = false;
bool never_finalizes = false;

bool is_rank_1() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == 1;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are MPI's.
extern "C" {
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  return duplicates_fail && is_rank_1() ? MPI_ERR_OTHER : PMPI_Comm_dup(comm, made);
}
int MPI_Finalize() {
  if (never_finalizes && is_rank_1()) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  return PMPI_Finalize();
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return barriers_fail && is_rank_1() ? MPI_ERR_OTHER : PMPI_Ibarrier(comm, request);
}
}
// NOLINTEND(readability-identifier-naming)

int main(int argc, char** argv) {
  const std::string_view where = argv[argc - 1];
  duplicates_fail = where == "start";
  never_finalizes = where == "stuck";
  return ddpm::run::run_program(argc, argv, [&](const ddpm::run::Runtime& runtime) {
    if (where == "some" && runtime.session.rank() > 0) throw ddpm::base::DatasetError("image 7 is damaged");
    barriers_fail = where == "end";
    ddpm::comm::agree(runtime.session.world(), [] { throw ddpm::base::DatasetError("there is no set"); });
  });
}
