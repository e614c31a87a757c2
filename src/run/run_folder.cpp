#include "run/run_folder.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/named.h"
#include "checkpoint/folders.h"
#include "comm/collectives.h"
#include "config/value.h"
#include "run/fault.h"

namespace ddpm::run {
namespace {

/// Files that `ddpm doctor` leaves, or a start that was killed before it wrote config.toml.
bool is_left_by_a_start(const std::string& name) {
  if (name == checkpoint::kLockName || name == checkpoint::kStartsName) return true;
  const auto owners = {checkpoint::kLockName, checkpoint::kStartsName, checkpoint::kConfigName,
                       checkpoint::kDoctorName};
  return std::ranges::any_of(owners, [&](const char* owner) { return name.starts_with(fmt::format(".{}.", owner)); });
}

/// A file that another rank has just made: some network file systems show it half a minute later.
std::string read_when_visible(const base::FileSystem& files, const base::Path& path) {
  constexpr uint64_t kMaxBytes = 64U << 10U;
  constexpr auto kPatience = std::chrono::seconds(60);
  constexpr auto kPause = std::chrono::milliseconds(200);
  const auto give_up = base::Clock::now() + kPatience;
  while (!files.exists(path) && base::Clock::now() < give_up) std::this_thread::sleep_for(kPause);
  return files.read(path, kMaxBytes);
}

/// Reads from the config.toml of a run. A file that cannot be read is the run folder's fault, not the user's
/// configuration's.
template <typename Read>
auto read_back(const base::Path& stored, const Read& read) {
  try {
    return read(config::read_toml(stored));
  } catch (const base::ConfigError& error) {
    throw base::OutputError("{}: cannot be read back: {}", stored.string(), error.what());
  }
}

}  // namespace

void set_file_mask(Umask umask) {
  if (umask != Umask::user) ::umask(static_cast<mode_t>(std::stoul(std::string(base::name_of(umask)), nullptr, 8)));
}

Umask stored_umask(const base::FileSystem& files, const base::Path& config_file) {
  CommonConfig config;
  if (!files.exists(config_file)) return config.run.umask;
  config::Schema schema;
  describe_run_and_batch(schema, config);
  return read_back(config_file, [&](const config::Table& stored) {
    if (const config::Value* umask = config::find_value(stored, "run", "umask")) {
      config::assign(*schema.find("run.umask"), *umask, config_file.string());
    }
    return config.run.umask;
  });
}

RunFolder::RunFolder(base::FileSystem& files, comm::Communicator& comm, const base::Logger& log, base::Path path,
                     const config::Schema& configuration)
    : files_(files), comm_(comm), log_(log), configuration_(configuration), path_(std::move(path)) {
  const auto seen =
      static_cast<Content>(comm::number_on_root(comm_, [this] { return static_cast<int64_t>(inspect()); }));
  resumes_ = seen != Content::no_run;
  has_model_ = seen == Content::run_with_model;
}

/// What has changed since the run was written.
std::vector<config::Difference> RunFolder::stored_differences(const base::Path& stored) const {
  return read_back(stored, [&](const config::Table& table) { return config::differences(configuration_, table); });
}

RunFolder::Content RunFolder::inspect() const {
  if (!files_.exists(path_)) return Content::no_run;
  const base::Path stored_path = path_ / checkpoint::kConfigName;
  if (!files_.exists(stored_path)) {
    const std::vector<std::string> names = files_.list(path_);
    if (std::ranges::all_of(names, is_left_by_a_start)) return Content::no_run;
    throw base::OutputError("run.directory {} holds files but no run (no {}): name a new or empty folder",
                            path_.string(), checkpoint::kConfigName);
  }
  for (const config::Difference& difference : stored_differences(stored_path)) {
    if (difference.identity == config::Identity::fixed) {
      throw base::OutputError(
          "run.directory {} is another run's: its {} = {}, "
          "yours is {}; restore it{} or name another folder",
          path_.string(), difference.path, difference.stored, difference.now,
          difference.way_out.empty() ? "" : fmt::format(", set {},", difference.way_out));
    }
    log_.info("resuming with {} = {} (was {})", difference.path, difference.now, difference.stored);
  }
  return files_.exists(model() / checkpoint::kModelIndexName) ? Content::run_with_model : Content::run;
}

void RunFolder::lock(bool force_unlock) {
  const config::Value umask = config::current(*configuration_.find("run.umask"));
  set_file_mask(base::find_named<Umask>(std::get<std::string>(umask.data)).value());  // every rank makes files
  comm::do_on_root(comm_, [this] {
    for (base::Path folder = base::plain_path(path_); !files_.exists(folder); folder = base::parent_of(folder)) {
      made_.push_back(folder);
    }
    files_.create_directories(path_);
  });
  lock_.emplace(checkpoint::RunLock::acquire(files_, comm_, path_, log_, {.force = force_unlock}));
}

void RunFolder::expect_shared() {
  const base::Path lock = path_ / checkpoint::kLockName;
  std::string owner;
  comm::agree(comm_, [&] {
    const base::Path checkpoints = path_ / checkpoint::kCheckpointsName;
    const base::Path probe = files_.exists(checkpoints)
                                 ? checkpoints / checkpoint::temporary_folder_name(checkpoint::kBeingWritten, 0)
                                 : base::temporary_beside(lock);
    files_.create_exclusive(probe)->close();
    files_.remove(probe);
    owner = checkpoint::parse_lock(read_when_visible(files_, lock)).nonce;
  });
  const std::string owner_on_root = comm::broadcast(comm_, owner);
  comm::agree(comm_, [&] {
    if (owner == owner_on_root) return;
    throw base::OutputError(
        "{} names another owner here than on rank 0: run.directory is another folder here, as one that is local to the "
        "node; wanted: a folder that all ranks share",
        lock.string());
  });
}

void RunFolder::withdraw() {
  release();
  comm::do_on_root(comm_, [this] {
    for (const base::Path& folder : made_) {
      if (!files_.list(folder).empty()) break;
      files_.remove(folder);
    }
  });
}

void RunFolder::claim() {
  comm::do_on_root(comm_, [this] {
    base::write_atomically(files_, path_ / checkpoint::kConfigName, config::to_toml(configuration_, false));
    for (const base::Path& folder : {model(), best_model()}) warn_of_left(base::remove_leftovers(files_, folder));
    if (!files_.exists(model())) return warn_of_left(base::remove_leftovers(files_, previous_model()));
    warn_of_left(base::discard(files_, previous_model()));
    files_.rename(model(), previous_model());
    files_.sync_directory(path_);
  });
}

void RunFolder::expect_owned() {
  if (lock_) lock_->expect_owned();
}

void RunFolder::require_owned() {
  comm::agree(comm_, [this] { expect_owned(); });
}

void RunFolder::drop_previous_model() {
  tidy_up([this] {
    warn_of_left(base::discard(files_, previous_model()));
    for (const base::Path& folder : {model(), best_model()}) warn_of_left(base::remove_leftovers(files_, folder));
  });
}

void RunFolder::drop_best_model() {
  tidy_up([this] { warn_of_left(base::discard(files_, best_model())); });
}

/// A run that has come to its end does not fail by what it no longer needs.
void RunFolder::tidy_up(const std::function<void()>& work) {
  comm::do_on_root(comm_, [&] {
    try {
      work();
    } catch (const base::OutputError& error) {
      warn_of_left({error.what()});
    }
  });
}

void RunFolder::warn_of_left(const std::vector<std::string>& errors) const {
  for (const std::string& error : errors) log_.warn("left in place, for the next start to remove: {}", error);
}

void RunFolder::guard(const std::function<void()>& work, const OwnError& on_own_error) {
  try {
    work();
  } catch (const comm::AgreedError&) {
    throw;
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    on_own_error([this] {
      if (lock_) lock_->abandon();
      lock_.reset();
    });
    if (lock_) lock_->abandon();
    throw;
  }
}

void RunFolder::release() {
  if (lock_) lock_->release();
  lock_.reset();
}

}  // namespace ddpm::run
