// RUN/LOCK: one run at a time in a run folder.
//
// The file is created with O_EXCL and holds who owns it: host, process, job, a nonce and the start time. It is a lease:
// a thread of rank 0 renews it every 30 s (lock_lease.h). A start that finds a lock
//   - takes it over at once when its owner is surely gone: its process is dead on this host, or it is an earlier start
//     of this same job (requeued by Slurm, or run again by the server of PBS);
//   - takes it over when it is stale: not written for 5 minutes by the clock that stamps the folder's files, and then
//     unchanged while it is watched for two renewals. Clocks of different hosts are never compared, and where clients
//     stamp files with a wrong clock, the watch still sees a living owner's renewal;
//   - in a batch job, watches one of another job that has missed two renewals until it is stale, and takes it over
//     then: the job before it in a chain may have died with its node. A renewal ends the watch;
//   - takes it over at once, whoever owns it, when it was asked to (--force-unlock);
//   - is otherwise refused with exit code 4, and the message names the owner and the time to wait.
// A lock of another version counts like any other, by its age and renewals, also where its text is not understood.
// A run whose lock was taken must write no further checkpoint: it calls expect_owned() before it commits one.
//
// Only rank 0 touches the file, unless another rank is about to end the job (abandon()).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/lock_lease.h"
#include "comm/communicator.h"

namespace ddpm::checkpoint {

struct LockOptions {
  bool force = false;  ///< take the lock from whoever has it, with a warning
  LockTiming timing = {};
};

/// Whether `owner` can no longer be running, as far as `self` can tell.
bool is_gone(const LockOwner& owner, const LockOwner& self);

class RunLock {
 public:
  /// Locks an existing run folder. Collective. Throws comm::AgreedError (exit code 4) on all ranks when another run
  /// holds it.
  static RunLock acquire(base::FileSystem& files, comm::Communicator& comm, const base::Path& run_directory,
                         const base::Logger& logger, const LockOptions& options = {});
  /// On rank 0, throws base::OutputError, which names the taker, when the file is another's or gone. Does nothing on
  /// other ranks. It is not collective, and serves CheckpointStore::set_guard.
  void expect_owned();
  /// Whether the renewing thread has seen that; false on ranks other than 0.
  [[nodiscard]] bool lost() const { return lease_ && lease_->lost(); }
  /// Removes the file. Collective.
  void release();
  /// Call it for an error of this rank alone, which is about to end all ranks by MPI_Abort: rank 0 may be in a
  /// collective then, and will not remove its file. Another rank removes it here, if it is still the one that acquire()
  /// made, and does nothing if that cannot be told. Rank 0 does nothing: its destructor removes the file. Not
  /// collective.
  void abandon() noexcept;

  /// Without release(), as when an error is on its way, rank 0 removes the file and warns if it cannot. Not collective.
  ~RunLock();
  RunLock(RunLock&& other) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  RunLock(base::FileSystem& files, base::Path path, std::string nonce, comm::Communicator& comm,
          const base::Logger& logger, std::unique_ptr<LockLease> lease)
      : files_(&files),
        path_(std::move(path)),
        nonce_(std::move(nonce)),
        comm_(&comm),
        logger_(&logger),
        lease_(std::move(lease)) {}

  base::FileSystem* files_;
  base::Path path_;
  std::string nonce_;  ///< the owner's, on all ranks
  comm::Communicator* comm_;
  const base::Logger* logger_;
  std::unique_ptr<LockLease> lease_;  ///< null after release and on the other ranks
};

}  // namespace ddpm::checkpoint
