// What a run does to its folder, tried on all hosts at once: files that appear whole under their names, are seen by the
// others, and keep two runs apart.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/file_system.h"
#include "base/json.h"
#include "comm/communicator.h"

namespace ddpm::doctor {

/// What one rank saw. Its neighbour is the next one, in a ring.
struct FolderVisit {
  std::string error;                      ///< what the first call that failed said; "" if none did
  double found_s = -1.0;                  ///< until the folder that the first rank had made was seen; -1: never
  double seen_s = -1.0;                   ///< until the neighbour's file was seen under its new name; -1: never
  std::string damage;                     ///< what is wrong with the content of the neighbour's file
  std::map<std::string, double> seconds;  ///< create, write, sync, rename, sync_directory; read (the neighbour's file)
  /// By flock and fcntl. "excludes": while one rank has the lock no other gets it; "does not exclude"; "is not let go";
  /// otherwise the error.
  std::map<std::string, std::string> locks;
};

struct FolderFacts {
  std::string path;    ///< as given
  std::string tested;  ///< where the files were made: in it, or in the folder nearest to it that exists
  std::string error;   ///< why no test was possible
  std::string left;    ///< why the test's files could not be removed
  std::string type;    ///< kind of file system: "lustre"
  std::string mount;   ///< where that is mounted
  uint64_t free_bytes = 0;
  int64_t file_bytes = 0;           ///< size of the file that each rank wrote
  std::vector<int64_t> winners;     ///< ranks that created one same file exclusively, in each of several tries
  std::vector<FolderVisit> visits;  ///< what each rank saw, in the order of ranks
};

struct FolderOptions {
  int64_t file_bytes = int64_t{16} << 20;
  std::chrono::milliseconds patience{10'000};  ///< how long to wait until another host's change is seen
  /// How a lock is tried.
  base::FileLock (*lock)(const base::Path& path, base::LockKind kind) =
      [](const base::Path& path, base::LockKind kind) { return base::FileLock(path, kind); };
};

/// The patience of a check that may take so long in all: that of FolderOptions, or less, since the check waits twice.
std::chrono::milliseconds patience_within(double seconds);

class FolderCheck {
 public:
  /// Checks `path`, which need not exist, with the ranks of `comm`. Makes the test's folder on its rank 0. Collective.
  FolderCheck(base::FileSystem& files, comm::Communicator& comm, base::Path path, const FolderOptions& options = {});
  /// Removes the test's folder on rank 0 if run() did not. Not collective.
  ~FolderCheck();
  FolderCheck(const FolderCheck&) = delete;
  FolderCheck& operator=(const FolderCheck&) = delete;

  /// The test's folder, the same on every rank; empty if it could not be made.
  [[nodiscard]] const base::Path& folder() const { return folder_; }

  /// The whole test; removes its folder. Failures of file calls are what it looks for: they are in the facts, which are
  /// whole on rank 0. Collective.
  FolderFacts run();

 private:
  void make_folder();
  void find_folder(FolderVisit& visit);
  void write_file(FolderVisit& visit);
  void read_neighbour(FolderVisit& visit);
  std::vector<int64_t> race();
  void try_locks(FolderVisit& visit);
  void remove_folder();
  template <typename Work>
  void guarded(FolderVisit& visit, const Work& work) const;
  [[nodiscard]] bool all(bool mine);
  [[nodiscard]] base::Path file_of(int rank) const;
  /// Seconds until `path` is there; -1 after the patience.
  [[nodiscard]] double wait_for(const base::Path& path) const;

  base::FileSystem& files_;
  comm::Communicator& comm_;
  FolderOptions options_;
  base::Path folder_;
  FolderFacts facts_;
};

}  // namespace ddpm::doctor
