// A file system whose n-th call that changes something fails, as disks and file servers do.
#pragma once

#include <memory>

#include "base/error.h"
#include "base/file_system.h"
#include "checkpoint/disk_file_system.h"

namespace ddpm::checkpoint {

enum class Fault {
  refused,  ///< nothing was done: EIO at once
  partial,  ///< a write wrote half of its bytes; anything else as with `refused`
  late,     ///< it was done, and then reported as failed: fsync and close on a file server
  silent,   ///< a write put a wrong byte on the disk and was reported as done; anything else was done
};

class FaultyFileSystem : public DiskFileSystem {
 public:
  /// Fails at mutating call `fails_at` (from 1; 0: never) and, if it is `lasting`, at every later one.
  FaultyFileSystem(int fails_at, Fault fault, bool lasting) : fails_at_(fails_at), fault_(fault), lasting_(lasting) {}

  /// Whether a call has failed so far.
  [[nodiscard]] bool failed() const { return failed_; }

  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override;
  std::unique_ptr<base::WritableFile> open_append(const base::Path& path) override;
  void sync_file(const base::Path& path) override {
    change([&] { disk_->sync_file(path); });
  }
  void sync_directory(const base::Path& path) override {
    change([&] { disk_->sync_directory(path); });
  }
  void create_directory(const base::Path& path) override {
    change([&] { disk_->create_directory(path); });
  }
  void create_directories(const base::Path& path) override {
    change([&] { disk_->create_directories(path); });
  }
  void rename(const base::Path& from, const base::Path& to) override {
    change([&] { disk_->rename(from, to); });
  }
  void remove(const base::Path& path) override {
    change([&] { disk_->remove(path); });
  }
  void remove_all(const base::Path& path) override {
    change([&] { disk_->remove_all(path); });
  }

 private:
  friend class FaultyFile;
  /// Counts a mutating call, and does it, or fails it, or both.
  template <typename Work>
  void change(Work&& work) {
    const bool fails = strikes();
    if (!fails || fault_ == Fault::late || fault_ == Fault::silent) work();
    if (fails && fault_ != Fault::silent) throw base::OutputError("simulated input/output error");
  }
  bool strikes() {
    ++calls_;
    const bool fails = fails_at_ > 0 && (lasting_ ? calls_ >= fails_at_ : calls_ == fails_at_);
    failed_ = failed_ || fails;
    return fails;
  }

  int fails_at_;
  Fault fault_;
  bool lasting_;
  int calls_ = 0;
  bool failed_ = false;
};

}  // namespace ddpm::checkpoint
