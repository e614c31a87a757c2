#include "comm/end_ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <mpi.h>
#include <unistd.h>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/launch.h"

namespace ddpm::comm {
namespace {

constexpr unsigned kAbortSeconds = 5;
constexpr auto kTimeToBeHeard = std::chrono::milliseconds(500);
constexpr auto kTurn = std::chrono::seconds(1);

bool mpi_runs() {
  int begun = 0;
  int over = 0;
  return MPI_Initialized(&begun) == MPI_SUCCESS && MPI_Finalized(&over) == MPI_SUCCESS && begun != 0 && over == 0;
}

}  // namespace

void end_all_ranks(int exit_code, const std::function<void()>& before) {
  // MPI_Abort asks the launcher to end all ranks, and may itself be in the way of what hangs here.
  static_cast<void>(std::signal(SIGALRM, SIG_DFL));
  alarm(kAbortSeconds);
  if (before) before();
  base::remove_unfinished();
  // Slurm ends the step at once, and what a rank has just said is lost unless its daemon has passed it on by then.
  if (launched_by_srun(process_environment())) std::this_thread::sleep_for(kTimeToBeHeard);
  if (mpi_runs()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);  // MPI_Abort does not return; the compiler does not know.
}

void end_start(const base::Error& error) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::this_thread::sleep_for(std::min(rank, 2) * kTurn);
  base::Logger(rank, size).error("{}", error.what());
  end_all_ranks(static_cast<int>(error.code()));
}

}  // namespace ddpm::comm
