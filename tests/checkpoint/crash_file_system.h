// A file system that dies at the n-th call that changes something, and can then lose what was never synced.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/disk_file_system.h"
#include "support/temporary_folder.h"

namespace ddpm::checkpoint {

/// The end of the process, as far as a test can imitate it. It is not a base::Error, since nothing may handle it.
struct Crash : std::runtime_error {
  Crash() : std::runtime_error("simulated crash") {}
};

enum class Loss {
  nothing,        ///< the process was killed: all that it did is there
  data,           ///< power loss; names are there, but files that were not synced have only half of their bytes
  data_and_names  ///< power loss; what a folder's sync would have kept is undone too
};

class CrashFileSystem : public DiskFileSystem {
 public:
  /// Dies at mutating call `dies_at` (from 1), after half of it was done if it is a write, and at every later one.
  explicit CrashFileSystem(int dies_at) : dies_at_(dies_at) {}

  /// What the disk shows after the restart.
  void lose(Loss loss);

  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override;
  std::unique_ptr<base::WritableFile> open_append(const base::Path& path) override;
  void sync_file(const base::Path& path) override;
  void sync_directory(const base::Path& path) override;
  void create_directory(const base::Path& path) override;
  void create_directories(const base::Path& path) override;
  void rename(const base::Path& from, const base::Path& to) override;
  void remove(const base::Path& path) override;
  void remove_all(const base::Path& path) override;

 private:
  friend class CrashFile;
  struct File {
    base::Path path;
    bool synced = false;
  };
  struct Change {
    base::Path folder;
    std::function<void()> undo;
  };
  /// Counts a mutating call; true when the process dies in it.
  bool dies() { return ++calls_ >= dies_at_; }
  void live() {
    if (dies()) throw Crash();
  }
  [[nodiscard]] base::Path grave() { return graveyard_.path() / std::to_string(graves_++); }

  int dies_at_;
  int calls_ = 0;
  int graves_ = 0;
  test::TemporaryFolder graveyard_;  // what was removed or replaced, for undoing
  std::vector<std::shared_ptr<File>> files_;
  std::vector<Change> changes_;  // of folders, since their last sync
};

}  // namespace ddpm::checkpoint
