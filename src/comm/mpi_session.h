// MPI from start to end of the process.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "comm/communicator.h"
#include "comm/start_deadline.h"

namespace ddpm::comm {

struct StartOptions {
  double timeout_s = StartDeadline::kUsual;  ///< in which the ranks have to meet, where the environment has no other
  double reach_timeout_s = 0.0;  ///< positive: first find out whether all hosts hear each other (comm/reach.h)
  /// False where ranks have nothing to share: a process that no launcher started, or that MPI could not start from (a
  /// shell of `srun --pty`), is a world of its own then, without MPI, which takes time and may be what is broken.
  bool shares_work = true;
};

/// Owns MPI_Init_thread and MPI_Finalize; lives in main() (and in the tests' main).
///
/// A process that no launcher started leaves nothing in the file system for MPI: Open MPI would give all such processes
/// of a user one folder, which each of them removes at its end, and those that start at that moment would fail.
///
/// The constructor requires MPI_THREAD_MULTIPLE and refuses (CommunicationError, exit 5) a task of srun that Open MPI
/// could not start (see launch.h): errors that all ranks have. What one rank meets when MPI runs ends them all. Whether
/// the launcher got as many ranks as it promised is check_launch()'s to say, for the subcommands that need it. A rank
/// whose mpirun dies is killed.
///
/// Destroy every other communicator before finalize(). The destructor is not collective: on the way out of an error,
/// call abort().
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv, const StartOptions& start = {});
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// All ranks, on host memory.
  [[nodiscard]] Communicator& world() { return *world_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Rank and number of ranks on this host (MPI_Comm_split_type, shared memory).
  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int local_size() const { return local_size_; }
  [[nodiscard]] const std::string& host_name() const { return host_name_; }
  /// The name by which messages call this host (comm/node_names.h).
  [[nodiscard]] const std::string& node_name() const { return node_name_; }

  /// MPI_Finalize on the good path, so that its failure is seen. Collective; world() is gone afterwards.
  void finalize();
  /// What abort() does first, on the thread that calls it: give up what device libraries wait for. Must not block.
  void before_abort(std::function<void()> work);
  /// What the watchdog asks every quarter of a second, on its thread: how communication beside MPI has failed, which
  /// the main thread may be waiting for; "" when it has not.
  void set_failure_check(std::function<std::string()> check);
  [[nodiscard]] std::string failure();
  /// Ends every rank as end_all_ranks() does, after what before_abort() was given. Any thread may call it.
  [[noreturn]] void abort(int exit_code);

 private:
  void meet(const StartOptions& start);

  std::unique_ptr<Communicator> world_;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::string host_name_;
  std::string node_name_;
  bool has_mpi_ = false;
  bool finalized_ = false;
  std::mutex hooks_mutex_;
  std::function<void()> before_abort_;
  std::function<std::string()> failure_check_;
};

}  // namespace ddpm::comm
