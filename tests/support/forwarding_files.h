// The real disk, for test doubles that interfere with some calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace ddpm::test {

class ForwardingFiles : public base::FileSystem {
 public:
  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override {
    return disk_->create_exclusive(path);
  }
  std::unique_ptr<base::WritableFile> open_append(const base::Path& path) override { return disk_->open_append(path); }
  void sync_file(const base::Path& path) override { disk_->sync_file(path); }
  void sync_directory(const base::Path& path) override { disk_->sync_directory(path); }
  void create_directory(const base::Path& path) override { disk_->create_directory(path); }
  void create_directories(const base::Path& path) override { disk_->create_directories(path); }
  void rename(const base::Path& from, const base::Path& to) override { disk_->rename(from, to); }
  void remove(const base::Path& path) override { disk_->remove(path); }
  void remove_all(const base::Path& path) override { disk_->remove_all(path); }
  [[nodiscard]] bool exists(const base::Path& path) const override { return disk_->exists(path); }
  [[nodiscard]] std::string read(const base::Path& path, uint64_t max) const override { return disk_->read(path, max); }
  [[nodiscard]] uint64_t file_size(const base::Path& path) const override { return disk_->file_size(path); }
  [[nodiscard]] std::vector<std::string> list(const base::Path& path) const override { return disk_->list(path); }
  [[nodiscard]] uint64_t free_bytes(const base::Path& path) const override { return disk_->free_bytes(path); }

 private:
  std::unique_ptr<base::FileSystem> disk_ = base::posix_file_system();
};

}  // namespace ddpm::test
