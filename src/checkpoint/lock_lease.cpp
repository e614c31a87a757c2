#include "checkpoint/lock_lease.h"

#include <exception>
#include <random>
#include <utility>

#include <unistd.h>

#include "base/error.h"
#include "base/host_name.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "checkpoint/process_start.h"
#include "comm/job.h"

namespace ddpm::checkpoint {

LockOwner LockOwner::self() {
  const comm::Environment environment = comm::process_environment();
  std::random_device entropy;
  LockOwner owner;
  owner.host = base::host_name();
  owner.pid = ::getpid();
  owner.process_start = process_start_of(owner.pid);
  owner.job_id = comm::job_number(environment);
  owner.restart_count = comm::job_restarts(environment);
  owner.nonce = fmt::format("{:08x}{:08x}", entropy(), entropy());
  owner.start_time =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return owner;
}

std::string to_text(const LockOwner& owner) {
  const base::OrderedJson json = {{"host", owner.host},
                                  {"pid", owner.pid},
                                  {"process_start", owner.process_start},
                                  {"job_id", owner.job_id},
                                  {"restart_count", owner.restart_count},
                                  {"nonce", owner.nonce},
                                  {"start_time", owner.start_time}};
  return json.dump(2) + "\n";
}

std::optional<std::string_view> owner_text(std::string_view text) {
  constexpr std::string_view kEnd = "}\n";
  const std::size_t end = text.rfind(kEnd);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(0, end + kEnd.size());
}

LockOwner parse_lock(const std::string& text) {
  const auto whole = owner_text(text);
  if (!whole) throw base::OutputError("{}: cut short: {} bytes", kLockName, text.size());
  const base::Json json = base::parse_json_file(*whole, kLockName, kMaxLockBytes);
  const base::JsonFields fields(json, kLockName, {}, base::JsonFields::Others::ignored);
  const auto text_at = [&](std::string_view key) { return fields.has(key) ? fields.text(key) : std::string(); };
  const auto number_at = [&](std::string_view key) { return fields.has(key) ? fields.integer(key) : int64_t{0}; };
  return {text_at("host"),        number_at("pid"),           text_at("process_start"),
          text_at("job_id"),      number_at("restart_count"), text_at("nonce"),
          number_at("start_time")};
}

std::optional<LockOwner> owner_in(const std::string& text) {
  if (!owner_text(text)) return std::nullopt;
  try {
    return parse_lock(text);
  } catch (const base::OutputError&) {
    return LockOwner{};
  }
}

std::optional<std::string> read_lock(const base::FileSystem& files, const base::Path& path) {
  try {
    return files.read(path, kMaxLockBytes);
  } catch (const base::OutputError&) {
    if (files.exists(path)) throw;
    return std::nullopt;
  }
}

std::string described(const LockOwner& owner) {
  if (owner.host.empty()) return "another version of ddpm";
  return fmt::format("process {} on {}{}", owner.pid, owner.host,
                     owner.job_id.empty() ? "" : fmt::format(", job {}", owner.job_id));
}

LockLease::LockLease(base::FileSystem& files, base::Path path, std::unique_ptr<base::WritableFile> file,
                     LockOwner owner, LockTiming timing, const base::Logger& logger)
    : files_(files),
      path_(std::move(path)),
      file_(std::move(file)),
      identity_(base::identity_of(path_)),
      owner_(std::move(owner)),
      timing_(timing),
      logger_(logger),
      thread_([this] { keep_renewing(); }) {}

LockLease::~LockLease() { stop_renewing(); }

void LockLease::stop_renewing() {
  {
    const std::lock_guard guard(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LockLease::expect_owned() {
  std::string taker = "its lock is gone";
  if (files_.exists(path_)) {
    const std::string text = files_.read(path_, kMaxLockBytes);
    const bool same_file = !identity_ || base::identity_of(path_) == identity_;
    try {
      const LockOwner now = parse_lock(text);
      const bool ours = now.nonce == owner_.nonce;
      lost_ = !ours || !same_file;
      if (!lost_) return;
      taker = ours ? "the lock is a copy of its own, so the folder was replaced by a copy"
                   : described(now) + " has taken it";
    } catch (const base::OutputError&) {
      taker = "another run is taking it";
    }
  }
  lost_ = true;
  throw base::OutputError("{}: this run no longer owns its folder: {}; it writes no further checkpoint", path_.string(),
                          taker);
}

void LockLease::remove() {
  stop_renewing();  // or a renewal would say that the lock is gone
  expect_owned();
  files_.remove(path_);
  files_.sync_directory(base::parent_of(path_));
}

/// A failure other than the lock's loss is the file system's, and may pass.
void LockLease::keep_renewing() {
  bool failed = false;
  std::unique_lock guard(mutex_);
  for (int64_t number = 1; !stop_.wait_for(guard, timing_.renew, [this] { return stopped_; }); ++number) {
    guard.unlock();
    try {
      renew(number);
      failed = false;
    } catch (const std::exception& error) {
      if (!std::exchange(failed, true)) logger_.warn("{}", error.what());
    }
    guard.lock();
  }
}

/// Between truncate and write the owner's text is whole, so that a reader never finds a torn lock.
void LockLease::renew(int64_t number) {
  expect_owned();
  file_->truncate(to_text(owner_).size());
  file_->write(fmt::format("renewed {}\n", number));
  file_->sync();
}

}  // namespace ddpm::checkpoint
