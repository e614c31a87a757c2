#include "comm/mpi_session.h"

#include <cstdlib>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/end_ranks.h"
#include "comm/launch.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_library.h"
#include "comm/node_names.h"
#include "comm/reach.h"
#include "comm/solo_communicator.h"
#include "comm/start_deadline.h"
#include "comm/start_fence.h"

namespace ddpm::comm {
namespace {

/// See base/limited_child.h: the program forks while MPI runs. libibverbs is told so, and libfabric's provider for
/// Slingshot (fi_cxi(7)), also of huge pages. What the user has set stays.
void keep_network_memory_from_children() {
  for (const char* variable : {"RDMAV_FORK_SAFE", "CXI_FORK_SAFE", "CXI_FORK_SAFE_HP"}) setenv(variable, "1", 0);
}

/// Whether this process starts MPI. One that shares no work and that Open MPI could not start from does without.
bool wants_mpi(const StartOptions& start) {
  const Environment environment = process_environment();
  if (start.shares_work) return true;
  return launched_rank(environment).has_value() && !(needs_pmix() && lacks_pmix(environment));
}

/// Throws what all ranks have in common: each of them returns, and nobody waits.
void init_mpi(int& argc, char**& argv) {
  keep_network_memory_from_children();
  expect_host_memory();
  if (needs_pmix()) check_pmix(process_environment());
  if (!launched_rank(process_environment())) expect_one_process();
  die_with_launcher();
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_MULTIPLE) {
    throw base::CommunicationError("MPI provides thread level {}; MPI_THREAD_MULTIPLE ({}) is wanted: {}", provided,
                                   static_cast<int>(MPI_THREAD_MULTIPLE), thread_advice());
  }
}

bool is_alone() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size == 1;
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv, const StartOptions& start)
    : host_name_(base::host_name()), node_name_(node_names({host_lines()}).front()) {
  const StartDeadline deadline(start.timeout_s);
  has_mpi_ = wants_mpi(start);
  if (!has_mpi_) {
    world_ = std::make_unique<SoloCommunicator>();
    return;
  }
  init_mpi(argc, argv);
  try {
    meet(start);
  } catch (const base::Error& error) {
    if (is_alone()) throw;
    end_start(error);
  }
}

void MpiSession::meet(const StartOptions& start) {
  wait_for_all_starts(process_environment());
  if (start.reach_timeout_s > 0.0) expect_reach(start.reach_timeout_s);
  MPI_Comm handle = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &handle), "MPI_Comm_dup");
  world_ = std::make_unique<MpiCommunicator>(handle);
  rank_ = world_->rank();
  size_ = world_->size();

  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(handle, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &local_size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  node_name_ = node_names(all_gather(*world_, host_lines()))[static_cast<std::size_t>(rank_)];
}

MpiSession::~MpiSession() {
  // MPI_Finalize waits for all ranks; here an error may be under way on this one only, which main() will report.
  if (!finalized_ && std::uncaught_exceptions() == 0)
    base::Logger(rank(), size(), node_name_).error("the process ends without MPI_Finalize");
}

void MpiSession::finalize() {
  // MPI_Finalize of some launchers' MPI returns before the other ranks have called it, and takes its connections along.
  barrier(*world_);
  world_.reset();
  finalized_ = true;
  if (has_mpi_) check_mpi(MPI_Finalize(), "MPI_Finalize");
}

void MpiSession::before_abort(std::function<void()> work) {
  const std::lock_guard lock(hooks_mutex_);
  before_abort_ = std::move(work);
}

void MpiSession::set_failure_check(std::function<std::string()> check) {
  const std::lock_guard lock(hooks_mutex_);
  failure_check_ = std::move(check);
}

std::string MpiSession::failure() {
  std::function<std::string()> check;
  {
    const std::lock_guard lock(hooks_mutex_);
    check = failure_check_;
  }
  return check ? check() : "";
}

void MpiSession::abort(int exit_code) {
  end_all_ranks(exit_code, [this] {
    std::function<void()> work;
    {
      const std::lock_guard lock(hooks_mutex_);
      work = std::exchange(before_abort_, nullptr);
    }
    if (work) work();
  });
}

}  // namespace ddpm::comm
