// The real disk, for test doubles that interfere with changes only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace ddpm::checkpoint {

class DiskFileSystem : public base::FileSystem {
 public:
  [[nodiscard]] bool exists(const base::Path& path) const override { return disk_->exists(path); }
  [[nodiscard]] std::string read(const base::Path& path, uint64_t max_bytes) const override {
    return disk_->read(path, max_bytes);
  }
  [[nodiscard]] uint64_t file_size(const base::Path& path) const override { return disk_->file_size(path); }
  [[nodiscard]] std::vector<std::string> list(const base::Path& path) const override { return disk_->list(path); }
  [[nodiscard]] uint64_t free_bytes(const base::Path& path) const override { return disk_->free_bytes(path); }

 protected:
  std::unique_ptr<base::FileSystem> disk_ = base::posix_file_system();
};

}  // namespace ddpm::checkpoint
