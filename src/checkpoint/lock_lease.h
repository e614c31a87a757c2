// Keeping a lock file alive, and noticing that it is no longer ours.
//
// The file holds its owner (run_lock.h) as JSON and a line "renewed N". A thread writes the next N every so often,
// through the descriptor with which the file was created: a renewal can only ever reach the owner's own file, never one
// that another run has put in its place. A copy of the file is not the lock either: if a copy of the run folder has
// replaced it, the open file lies in the folder that was moved away. It makes no MPI call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/file_identity.h"
#include "base/file_system.h"
#include "base/log.h"

namespace ddpm::checkpoint {

struct LockTiming {
  std::chrono::milliseconds renew{30'000};   ///< between two renewals
  std::chrono::milliseconds stale{300'000};  ///< without a renewal for so long, a lock may be taken over ...
  std::chrono::milliseconds watch{70'000};   ///< ... if it then also stays as it is for so long: two renewals
};

/// The owner of a lock, as written into the file (JSON). What another version has not written is as here.
struct LockOwner {
  std::string host;  ///< "": nothing is known of it
  int64_t pid = 0;
  std::string process_start;  ///< see process_start.h: tells a reused pid from the owner
  std::string job_id;         ///< the batch system's number of the job, or ""
  int64_t restart_count = 0;  ///< how often the job has come back under this number
  std::string nonce;
  int64_t start_time = 0;  ///< seconds since 1970

  /// This process.
  static LockOwner self();
};

inline constexpr const char* kLockName = "LOCK";
inline constexpr uint64_t kMaxLockBytes = 65536;

/// The file's text, up to the line that renewals write.
std::string to_text(const LockOwner& owner);
/// The part of a lock's text that its owner has made, without renewals; none while the text is torn, which is without
/// that part's end.
std::optional<std::string_view> owner_text(std::string_view text);
/// Reads the text of a whole lock, renewed or not; keys that are not known are passed over, since another version may
/// have written it. Throws base::OutputError for anything else.
LockOwner parse_lock(const std::string& text);
/// The owner; none while the text is torn. Nothing is known of it where a whole text cannot be understood; it may live
/// and renew its lock all the same.
std::optional<LockOwner> owner_in(const std::string& text);
/// The text of the lock at `path`; none when there is no lock, or it has just gone. Throws when it is there and cannot
/// be read.
std::optional<std::string> read_lock(const base::FileSystem& files, const base::Path& path);
/// "process 17 on node01, job 5"; "another version of ddpm" for an owner of which nothing is known.
std::string described(const LockOwner& owner);

class LockLease {
 public:
  /// `file` is the lock at `path`, just made, with the text of `owner` in it. Renews it from now on.
  LockLease(base::FileSystem& files, base::Path path, std::unique_ptr<base::WritableFile> file, LockOwner owner,
            LockTiming timing, const base::Logger& logger);
  /// Stops renewing; the file stays.
  ~LockLease();
  LockLease(const LockLease&) = delete;
  LockLease& operator=(const LockLease&) = delete;

  /// Whether the lock was another's, or gone, when it was last read. Any thread; reads no file.
  [[nodiscard]] bool lost() const { return lost_; }
  /// Reads the file; throws base::OutputError when it is another's, a copy, or gone. Any thread.
  void expect_owned();
  /// Stops renewing and removes the file. Throws as expect_owned() does, and leaves another's alone.
  void remove();

 private:
  void stop_renewing();
  void keep_renewing();
  void renew(int64_t number);

  base::FileSystem& files_;
  base::Path path_;
  std::unique_ptr<base::WritableFile> file_;
  std::optional<base::FileIdentity> identity_;  ///< which file file_ is, so that a copy in its place is noticed
  LockOwner owner_;
  LockTiming timing_;
  const base::Logger& logger_;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace ddpm::checkpoint
