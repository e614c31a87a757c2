#include "doctor/folder_check.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine_memory.h"
#include "checkpoint/run_files.h"
#include "comm/collectives.h"
#include "doctor/host_facts.h"
#include "doctor/mount.h"
#include "doctor/process_json.h"

namespace ddpm::doctor {

// This is outside of the unnamed namespace, where nlohmann-json would not find it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FolderVisit, error, found_s, seen_s, damage, seconds, locks)

namespace {

using base::LockKind;
using base::Path;

constexpr const char* kToken = "token";
constexpr int kRaces = 8;
constexpr std::chrono::milliseconds kBetweenLooks{10};

/// The content differs for each rank, and is nothing that a faulty file system might return by itself.
std::string content_of(int rank, int64_t bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t i = 0; i + sizeof(uint64_t) <= text.size(); i += sizeof(uint64_t)) {
    const uint64_t value = random();
    text.replace(i, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return text;
}

/// "FOLDER: cannot rename to a file: ..." of an error in files below the test's folder, whose names are meaningless to
/// users and differ on each rank.
std::string reason_of(const base::OutputError& error, const Path& test_folder) {
  std::string what = error.what();
  if (test_folder.empty()) return what;
  std::string instead = test_folder.parent_path().string();
  for (std::size_t at = what.find(test_folder.string()); at != std::string::npos;
       at = what.find(test_folder.string(), at)) {
    const std::size_t end = std::min(what.find_first_of(": ", at + test_folder.string().size()), what.size());
    what.replace(at, end - at, instead);
    at += instead.size();
    instead = "a file";
  }
  return what;
}

}  // namespace

std::chrono::milliseconds patience_within(double seconds) {
  const std::chrono::milliseconds quarter(static_cast<int64_t>(1000.0 * seconds / 4.0));
  return std::min(FolderOptions().patience, quarter);
}

FolderCheck::FolderCheck(base::FileSystem& files, comm::Communicator& comm, Path path, const FolderOptions& options)
    : files_(files), comm_(comm), options_(options) {
  facts_.path = path.string();
  facts_.file_bytes = options.file_bytes;
  if (comm_.rank() == 0) {
    try {
      make_folder();
    } catch (const base::OutputError& error) {
      facts_.error = reason_of(error, folder_);
      remove_folder();
    }
  }
  const std::string folder = comm::broadcast(comm_, facts_.error.empty() ? folder_.string() : "");
  if (comm_.rank() != 0) folder_ = folder;
}

FolderCheck::~FolderCheck() {
  if (comm_.rank() == 0) remove_folder();
}

/// Runs `work` unless something failed before; what it throws is written down.
template <typename Work>
void FolderCheck::guarded(FolderVisit& visit, const Work& work) const {
  if (!visit.error.empty()) return;
  try {
    work();
  } catch (const base::OutputError& error) {
    visit.error = reason_of(error, folder_);
  }
}

void FolderCheck::make_folder() {
  const Path existing = base::nearest_existing(files_, facts_.path);
  facts_.tested = existing.string();
  std::error_code error;
  const Mount mount =
      find_mount(base::kernel_file("/proc/self/mountinfo"), std::filesystem::weakly_canonical(existing, error));
  facts_.type = mount.type;
  facts_.mount = mount.point;
  facts_.free_bytes = files_.free_bytes(existing);
  folder_ = base::temporary_beside(existing / checkpoint::kDoctorName);
  files_.create_directory(folder_);
  const auto token = files_.create_exclusive(folder_ / kToken);
  token->write(folder_.string());
  token->close();
}

bool FolderCheck::all(bool mine) { return comm::all_reduce(comm_, int64_t{mine}, comm::ReduceOp::min) == 1; }

Path FolderCheck::file_of(int rank) const { return folder_ / fmt::format("file-{:05}", rank); }

double FolderCheck::wait_for(const Path& path) const {
  const auto start = base::Clock::now();
  while (!files_.exists(path)) {
    if (base::seconds_since(start) > std::chrono::duration<double>(options_.patience).count()) return -1.0;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return base::seconds_since(start);
}

/// A different folder of this name on this host would not hold the token.
void FolderCheck::find_folder(FolderVisit& visit) {
  guarded(visit, [&] {
    visit.found_s = wait_for(folder_ / kToken);
    constexpr uint64_t kMostBytes = 65536;
    if (visit.found_s >= 0.0 && files_.read(folder_ / kToken, kMostBytes) != folder_.string()) {
      visit.damage = fmt::format("{} has another content here", (folder_ / kToken).string());
    }
  });
}

void FolderCheck::write_file(FolderVisit& visit) {
  const Path hidden = base::temporary_beside(file_of(comm_.rank()));
  const auto timed = [&visit](const char* what, const auto& work) {
    const auto start = base::Clock::now();
    work();
    visit.seconds[what] = base::seconds_since(start);
  };
  guarded(visit, [&] {
    const std::string content = content_of(comm_.rank(), options_.file_bytes);
    std::unique_ptr<base::WritableFile> file;
    timed("create", [&] { file = files_.create_exclusive(hidden); });
    timed("write", [&] { file->write(content); });
    timed("sync", [&] { file->sync(); });
    file->close();
    timed("rename", [&] { files_.rename(hidden, file_of(comm_.rank())); });
    timed("sync_directory", [&] { files_.sync_directory(folder_); });
  });
}

void FolderCheck::read_neighbour(FolderVisit& visit) {
  const int neighbour = (comm_.rank() + 1) % comm_.size();
  guarded(visit, [&] {
    visit.seen_s = wait_for(file_of(neighbour));
    if (visit.seen_s < 0.0) return;
    const auto start = base::Clock::now();
    const std::string content = files_.read(file_of(neighbour), static_cast<uint64_t>(options_.file_bytes));
    visit.seconds["read"] = base::seconds_since(start);
    if (content == content_of(neighbour, options_.file_bytes)) return;
    visit.damage = fmt::format("{}: {} of {} bytes were read, and they are not those that were written",
                               file_of(neighbour).string(), content.size(), options_.file_bytes);
  });
}

std::vector<int64_t> FolderCheck::race() {
  std::vector<int64_t> winners;
  for (int i = 0; i < kRaces; ++i) {
    comm::barrier(comm_);
    int64_t won = 0;
    try {
      files_.create_exclusive(folder_ / fmt::format("race-{}", i))->close();
      won = 1;
    } catch (const base::OutputError&) {  // NOLINT(bugprone-empty-catch): who loses is told so by an error
    }
    winners.push_back(comm::all_reduce(comm_, won, comm::ReduceOp::sum));
  }
  return winners;
}

void FolderCheck::try_locks(FolderVisit& visit) {
  const bool first = comm_.rank() == 0;
  for (const LockKind kind : {LockKind::flock, LockKind::fcntl}) {
    std::string& said = visit.locks[base::name_of(kind)];
    std::optional<base::FileLock> mine;
    const auto try_it = [&](bool wanted, const char* otherwise) {
      try {
        mine.emplace(options_.lock(folder_ / kToken, kind));
        said = mine->held() == wanted ? "excludes" : otherwise;
      } catch (const base::OutputError& error) {
        said = reason_of(error, folder_);
      }
    };
    if (first) try_it(true, "is held by somebody else");
    comm::barrier(comm_);
    if (!first) try_it(false, "does not exclude");
    if (!first) mine.reset();
    comm::barrier(comm_);
    mine.reset();
    comm::barrier(comm_);
    if (comm_.rank() == 1 && said == "excludes") try_it(true, "is not let go");
    // On NFS a lock of one kind is in the way of the other.
    mine.reset();
    comm::barrier(comm_);
  }
}

void FolderCheck::remove_folder() {
  const Path folder = std::exchange(folder_, {});
  if (folder.empty()) return;
  try {
    files_.remove_all(folder);
  } catch (const std::exception& error) {
    facts_.left = error.what();
  }
}

FolderFacts FolderCheck::run() {
  FolderVisit visit;
  if (!folder_.empty()) {
    find_folder(visit);
    if (all(visit.found_s >= 0.0 && visit.damage.empty() && visit.error.empty())) {
      // A host that has just looked up a missing name may cache for a while that it is missing.
      guarded(visit, [&] { static_cast<void>(files_.exists(file_of((comm_.rank() + 1) % comm_.size()))); });
      comm::barrier(comm_);
      write_file(visit);
      if (all(visit.error.empty())) {
        read_neighbour(visit);
        facts_.winners = race();
        try_locks(visit);
      }
    }
    for (const std::string& text : comm::all_gather(comm_, sent_text(visit))) {
      facts_.visits.push_back(base::Json::parse(text).get<FolderVisit>());
    }
    if (comm_.rank() == 0) remove_folder();
  }
  comm::barrier(comm_);
  return facts_;
}

}  // namespace ddpm::doctor
