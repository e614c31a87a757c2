#include "checkpoint/run_lock.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/pulse.h"
#include "checkpoint/process_start.h"
#include "comm/collectives.h"

namespace ddpm::checkpoint {
namespace {

using Seconds = std::chrono::duration<double>;

// A torn lock is being written now, or its writer died meanwhile: after this time it is the latter.
constexpr int kTornAttempts = 20;
constexpr std::chrono::milliseconds kTornPause{100};

/// Returns how long ago the lock was written, by the clock that stamps files in this folder: a new file shows its
/// current time. The clocks of owner and taker, which may differ by any amount, are not used.
Seconds age_of(base::FileSystem& files, const base::Path& path) {
  const base::Path probe = base::temporary_beside(path);
  files.create_exclusive(probe)->close();
  base::FileFacts now;
  base::FileFacts written;
  try {
    now = base::look_at(probe);
    written = base::look_at(path);
  } catch (const base::OutputError&) {
    files.remove(probe);
    throw;
  }
  files.remove(probe);
  if (written.kind == base::FileKind::absent) return Seconds::max();  // it has just gone
  return Seconds(static_cast<double>(now.stamp.seconds - written.stamp.seconds) +
                 1e-9 * static_cast<double>(now.stamp.nanoseconds - written.stamp.nanoseconds));
}

enum class Watched : uint8_t { unchanged, changed, gone };

/// What becomes of the lock within `time`.
Watched watch(const base::FileSystem& files, const base::Path& path, const std::string& text, Seconds time) {
  const auto end = base::Clock::now() + std::chrono::duration_cast<base::Clock::duration>(time);
  while (base::Clock::now() < end) {
    std::this_thread::sleep_for(std::min(time / 10, Seconds(1.0)));
    const std::optional<std::string> now = read_lock(files, path);
    if (!now) return Watched::gone;
    if (*now != text) return Watched::changed;
    base::pulse();
  }
  return Watched::unchanged;
}

/// Takes a lock away. Two starters may try at once: the rename lets one win, and the text tells it whether it moved the
/// lock that it meant or one made or renewed since.
void remove_lock(base::FileSystem& files, const base::Path& path, const std::string& nonce,
                 const std::function<bool(const std::string&)>& is_meant) {
  const base::Path aside = path.parent_path() / fmt::format(".{}.stale-{}", kLockName, nonce);
  try {
    files.rename(path, aside);
  } catch (const base::OutputError&) {
    if (files.exists(path)) throw;
    throw base::OutputError("{}: another run takes this folder at this moment", path.string());
  }
  if (!is_meant(files.read(aside, kMaxLockBytes))) {
    files.rename(aside, path);
    throw base::OutputError("{}: another run takes this folder at this moment", path.string());
  }
  files.remove(aside);
}

/// Only warns when it cannot, since the error on its way is about what failed before.
void remove_failed_lock(base::FileSystem& files, const base::Path& path, const base::Logger& logger) {
  try {
    files.remove(path);
  } catch (const base::OutputError& error) {
    logger.warn("{}", error.what());
  }
}

/// Makes the lock and keeps it alive. Leaves no file behind when that fails: a later start would wait for it.
std::unique_ptr<LockLease> create_lock(base::FileSystem& files, const base::Path& path, const LockOwner& self,
                                       const LockTiming& timing, const base::Logger& logger) {
  auto file = files.create_exclusive(path);
  try {
    file->write(to_text(self));
    file->sync();
    files.sync_directory(path.parent_path());
    return std::make_unique<LockLease>(files, path, std::move(file), self, timing, logger);
  } catch (...) {
    remove_failed_lock(files, path, logger);
    throw;
  }
}

[[noreturn]] void refuse(const base::Path& path, const LockOwner& owner, Seconds age, const LockTiming& timing) {
  const Seconds stale = timing.stale;
  throw base::OutputError(
      "{}: the run folder is in use by {}, which renewed its lock {:.0f} s ago; wanted: no other run in it. A lock is "
      "stale {:.0f} s after its last renewal, this one in {:.0f} s; if that run is surely dead, ddpm train "
      "--force-unlock takes it at once",
      path.string(), described(owner), std::max(age.count(), 0.0), stale.count(),
      std::clamp((stale - age).count(), 0.0, stale.count()));
}

/// Whether the lock with `text` may be taken away: its owner is surely gone, or has not renewed it for too long. False
/// where it has vanished meanwhile. Throws where its owner lives. A batch job, behind which others may wait in a chain,
/// waits until it is known whether the owner of another job that has missed two renewals does.
bool may_take(base::FileSystem& files, const base::Path& path, const LockOwner& owner, const std::string& text,
              const LockOwner& self, const LockTiming& timing, const base::Logger& logger) {
  if (is_gone(owner, self)) return true;
  const Seconds age = age_of(files, path);
  if (age == Seconds::max()) return false;
  const bool in_another_job = !self.job_id.empty() && self.job_id != owner.job_id;
  const bool may_be_dead = in_another_job && age > 2 * Seconds(timing.renew);
  if (age < timing.stale && !may_be_dead) refuse(path, owner, age, timing);
  // Files' times alone may be wrong, where clients stamp them.
  const Seconds stale = timing.stale;
  const Seconds time = std::clamp(stale - age, Seconds::zero(), stale) + timing.watch;
  logger.warn("{}: not renewed for {:.0f} s by {}; watching it for {:.0f} s before it is taken over", path.string(),
              std::max(age.count(), 0.0), described(owner), time.count());
  const Watched seen = watch(files, path, text, time);
  if (seen == Watched::changed) refuse(path, owner, Seconds::zero(), timing);
  return seen == Watched::unchanged;
}

/// Rank 0's part of acquire.
std::unique_ptr<LockLease> take(base::FileSystem& files, const base::Path& path, const LockOwner& self,
                                const base::Logger& logger, const LockOptions& options) {
  for (int attempt = 0; files.exists(path); ++attempt) {
    const std::optional<std::string> text = read_lock(files, path);
    const std::optional<LockOwner> owner = text ? owner_in(*text) : std::nullopt;
    if (!options.force && owner && !may_take(files, path, *owner, *text, self, options.timing, logger)) continue;
    if (!owner && (!text || (!options.force && attempt < kTornAttempts))) {
      std::this_thread::sleep_for(kTornPause);
      continue;
    }
    logger.warn("{}: {} from {}", path.string(), options.force ? "--force-unlock: taken" : "taken over",
                owner ? described(*owner) : "a run that died at its start");
    remove_lock(files, path, self.nonce, [&](const std::string& moved) {
      return options.force && owner ? owner_text(moved) == owner_text(*text) : moved == *text;
    });
  }
  return create_lock(files, path, self, options.timing, logger);
}

}  // namespace

bool is_gone(const LockOwner& owner, const LockOwner& self) {
  if (owner.host == self.host && has_surely_ended(owner.pid, owner.process_start)) return true;
  return !owner.job_id.empty() && owner.job_id == self.job_id && owner.restart_count < self.restart_count;
}

RunLock RunLock::acquire(base::FileSystem& files, comm::Communicator& comm, const base::Path& run_directory,
                         const base::Logger& logger, const LockOptions& options) {
  const base::Path path = run_directory / kLockName;
  std::unique_ptr<LockLease> lease;
  std::string nonce = comm::agree_on_root(comm, [&] {
    const LockOwner self = LockOwner::self();
    lease = take(files, path, self, logger, options);
    return self.nonce;
  });
  return {files, path, std::move(nonce), comm, logger, std::move(lease)};
}

void RunLock::expect_owned() {
  if (lease_) lease_->expect_owned();
}

void RunLock::release() {
  comm::do_on_root(*comm_, [&] {
    const std::unique_ptr<LockLease> lease = std::move(lease_);
    lease->remove();
  });
}

void RunLock::abandon() noexcept {
  if (comm_->rank() == 0) return;
  try {
    if (parse_lock(files_->read(path_, kMaxLockBytes)).nonce == nonce_) files_->remove(path_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): something worse is being reported
  }
}

RunLock::~RunLock() {
  if (!lease_) return;
  try {
    if (files_->exists(path_)) lease_->remove();  // another rank, which has an error as well, may have removed it
  } catch (const std::exception& error) {
    logger_->warn("{}", error.what());
  }
}

}  // namespace ddpm::checkpoint
