// RUN/LOCK: one run at a time in a run folder.
//
// The file is created with O_EXCL and holds who owns it: host, process, job, a nonce and the start time. A lock whose
// owner is surely gone is taken over: its process is dead on this host, or it is an earlier start of this same Slurm
// job (requeued). Any other lock is refused with exit code 4 and names its owner.
//
// Only rank 0 touches the file; acquire and release are collective and all ranks agree on the outcome.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/communicator.h"

namespace ddpm::checkpoint {

/// The owner of a lock, as written into the file (JSON).
struct LockOwner {
  std::string host;
  int64_t pid = 0;
  std::string process_start;  ///< boot id and start tick of the process: tells a reused pid from the owner
  std::string job_id;         ///< SLURM_JOB_ID, or ""
  int64_t restart_count = 0;  ///< SLURM_RESTART_COUNT, or 0
  std::string nonce;
  int64_t start_time = 0;  ///< seconds since 1970

  /// This process.
  static LockOwner self();
};

std::string to_text(const LockOwner& owner);
/// Throws base::OutputError unless `text` is a whole lock.
LockOwner parse_lock(const std::string& text);
/// Whether `owner` can no longer be running, as far as `self` can tell.
bool is_gone(const LockOwner& owner, const LockOwner& self);

class RunLock {
 public:
  /// Locks an existing run folder. Throws comm::AgreedError (exit code 4) on all ranks when another run holds it.
  static RunLock acquire(base::FileSystem& files, comm::Communicator& comm, const base::Path& run_directory,
                         const base::Logger& logger);
  /// Removes the file. Collective.
  void release();

  /// Without release (an error is on its way): rank 0 removes the file and says so if it cannot. Not collective.
  ~RunLock();
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  RunLock(base::FileSystem& files, comm::Communicator& comm, const base::Logger& logger, base::Path path,
          std::string text)
      : files_(&files), comm_(&comm), logger_(&logger), path_(std::move(path)), text_(std::move(text)) {}
  void remove_own();

  base::FileSystem* files_;
  comm::Communicator* comm_;
  const base::Logger* logger_;
  base::Path path_;
  std::string text_;  ///< what the file must still hold for it to be ours; "" after release or on other ranks
};

}  // namespace ddpm::checkpoint
