#include "checkpoint/run_lock.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/json_fields.h"
#include "comm/collectives.h"

namespace ddpm::checkpoint {
namespace {

constexpr const char* kLockName = "LOCK";
constexpr uint64_t kMaxLockBytes = 65536;
// A lock without its whole text is being written right now, or its writer died at it: the time to tell the two apart.
constexpr int kTornAttempts = 20;
constexpr std::chrono::milliseconds kTornPause{100};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

/// Boot id and start tick of a process on this host; "" when there is no such process, or only its corpse.
std::string process_start_of(int64_t pid) {
  constexpr int kStartTimeAfterName = 20;  // field 22 of /proc/PID/stat; the name ends field 2: proc(5)
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return {};
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < kStartTimeAfterName; ++i) {
    fields >> field;
    if (i == 0 && (field == "Z" || field == "X")) return {};
  }
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}/{}", boot, field);
}

std::string described(const LockOwner& owner) {
  return fmt::format("process {} on {}{}", owner.pid, owner.host,
                     owner.job_id.empty() ? "" : fmt::format(", job {}", owner.job_id));
}

/// The file's owner; none while its text is not whole, or when it has just gone.
std::optional<LockOwner> read_owner(const base::FileSystem& files, const base::Path& path) {
  try {
    return parse_lock(files.read(path, kMaxLockBytes));
  } catch (const base::OutputError&) {
    return std::nullopt;
  }
}

/// Takes a dead owner's lock away. Two starters may try at once: the rename lets one win, and the text tells it whether
/// it moved the dead lock or one made since.
void remove_stale(base::FileSystem& files, const base::Path& path, const std::string& stale_text,
                  const std::string& nonce) {
  const base::Path aside = path.parent_path() / fmt::format(".{}.stale-{}", kLockName, nonce);
  files.rename(path, aside);
  if (files.read(aside, kMaxLockBytes) != stale_text) {
    files.rename(aside, path);
    throw base::OutputError("{}: another run takes this folder at this moment", path.string());
  }
  files.remove(aside);
}

void create_lock(base::FileSystem& files, const base::Path& path, const std::string& text) {
  const auto file = files.create_exclusive(path);
  try {
    file->write(text);
    file->sync();
    file->close();
    files.sync_directory(path.parent_path());
  } catch (const base::OutputError&) {
    files.remove(path);
    throw;
  }
}

[[noreturn]] void refuse(const base::Path& path, const LockOwner& owner) {
  throw base::OutputError(
      "{}: the run folder is in use by {}; wanted: no other run in it (if that one is surely dead, remove the file)",
      path.string(), described(owner));
}

/// Rank 0's part of acquire.
void take(base::FileSystem& files, const base::Path& path, const LockOwner& self, const base::Logger& logger) {
  for (int attempt = 0; files.exists(path); ++attempt) {
    const std::optional<LockOwner> owner = read_owner(files, path);
    if (owner && !is_gone(*owner, self)) refuse(path, *owner);
    if (!owner && attempt < kTornAttempts) {
      std::this_thread::sleep_for(kTornPause);
      continue;
    }
    logger.warn("{}: taken over from {}", path.string(), owner ? described(*owner) : "a run that died at its start");
    remove_stale(files, path, owner ? to_text(*owner) : files.read(path, kMaxLockBytes), self.nonce);
  }
  create_lock(files, path, to_text(self));
}

}  // namespace

LockOwner LockOwner::self() {
  std::random_device entropy;
  LockOwner owner;
  owner.host = host_name();
  owner.pid = ::getpid();
  owner.process_start = process_start_of(owner.pid);
  owner.job_id = environment("SLURM_JOB_ID");
  owner.restart_count = std::strtoll(environment("SLURM_RESTART_COUNT").c_str(), nullptr, 10);
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

LockOwner parse_lock(const std::string& text) {
  const base::Json json = parse_json_file(text, kLockName, kMaxLockBytes);
  const JsonFields fields(json, kLockName,
                          {"host", "pid", "process_start", "job_id", "restart_count", "nonce", "start_time"});
  return {fields.text("host"),         fields.integer("pid"),           fields.text("process_start"),
          fields.text("job_id"),       fields.integer("restart_count"), fields.text("nonce"),
          fields.integer("start_time")};
}

bool is_gone(const LockOwner& owner, const LockOwner& self) {
  if (owner.host == self.host && process_start_of(owner.pid) != owner.process_start) return true;
  return !owner.job_id.empty() && owner.job_id == self.job_id && owner.restart_count < self.restart_count;
}

RunLock RunLock::acquire(base::FileSystem& files, comm::Communicator& comm, const base::Path& run_directory,
                         const base::Logger& logger) {
  const base::Path path = run_directory / kLockName;
  std::string text;  // stays empty on all ranks but 0
  comm::agree_on_root(comm, [&] {
    const LockOwner self = LockOwner::self();
    take(files, path, self, logger);
    text = to_text(self);
    return std::string();
  });
  return {files, comm, logger, path, std::move(text)};
}

RunLock::RunLock(RunLock&& other) noexcept
    : files_(other.files_),
      comm_(other.comm_),
      logger_(other.logger_),
      path_(std::move(other.path_)),
      text_(std::exchange(other.text_, {})) {}

void RunLock::remove_own() {
  if (std::exchange(text_, {}) != files_->read(path_, kMaxLockBytes)) {
    throw base::OutputError("{}: another run has taken this lock", path_.string());
  }
  files_->remove(path_);
  files_->sync_directory(path_.parent_path());
}

void RunLock::release() {
  comm::agree_on_root(*comm_, [&] {
    remove_own();
    return std::string();
  });
}

RunLock::~RunLock() {
  if (text_.empty()) return;
  try {
    remove_own();
  } catch (const std::exception& error) {
    logger_->warn("{}", error.what());
  }
}

}  // namespace ddpm::checkpoint
