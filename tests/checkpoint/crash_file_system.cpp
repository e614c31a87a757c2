#include "checkpoint/crash_file_system.h"

namespace ddpm::checkpoint {

class CrashFile : public base::WritableFile {
 public:
  CrashFile(CrashFileSystem& system, std::shared_ptr<CrashFileSystem::File> state,
            std::unique_ptr<base::WritableFile> file)
      : system_(system), state_(std::move(state)), file_(std::move(file)) {}

  void write(std::span<const std::byte> bytes) override {
    state_->synced = false;
    if (system_.dies()) {
      file_->write(bytes.first(bytes.size() / 2));
      throw Crash();
    }
    file_->write(bytes);
  }
  void sync() override {
    system_.live();
    state_->synced = true;  // syncs are only remembered, since the power stays on, and the tests stay fast
  }
  void truncate(uint64_t size) override {
    system_.live();
    state_->synced = false;
    file_->truncate(size);
  }
  void close() override {
    system_.live();
    file_->close();
  }

 private:
  CrashFileSystem& system_;
  std::shared_ptr<CrashFileSystem::File> state_;
  std::unique_ptr<base::WritableFile> file_;
};

void CrashFileSystem::lose(Loss loss) {
  if (loss == Loss::nothing) return;
  for (const auto& file : files_) {
    if (!file->synced && exists(file->path)) std::filesystem::resize_file(file->path, file_size(file->path) / 2);
  }
  if (loss == Loss::data) return;
  for (; !changes_.empty(); changes_.pop_back()) changes_.back().undo();
}

std::unique_ptr<base::WritableFile> CrashFileSystem::create_exclusive(const base::Path& path) {
  live();
  auto file = disk_->create_exclusive(path);
  files_.push_back(std::make_shared<File>(File{path}));
  changes_.push_back({path.parent_path(), [path] { std::filesystem::remove(path); }});
  return std::make_unique<CrashFile>(*this, files_.back(), std::move(file));
}

std::unique_ptr<base::WritableFile> CrashFileSystem::open_append(const base::Path& path) {
  live();
  auto file = disk_->open_append(path);
  files_.push_back(std::make_shared<File>(File{path}));
  return std::make_unique<CrashFile>(*this, files_.back(), std::move(file));
}

void CrashFileSystem::sync_file(const base::Path& path) {
  live();
  for (const auto& file : files_) file->synced = file->synced || file->path == path;
}

void CrashFileSystem::sync_directory(const base::Path& path) {
  live();
  std::erase_if(changes_, [&](const Change& change) { return change.folder == path; });
}

void CrashFileSystem::create_directory(const base::Path& path) {
  live();
  disk_->create_directory(path);
  changes_.push_back({path.parent_path(), [path] { std::filesystem::remove_all(path); }});
}

void CrashFileSystem::create_directories(const base::Path& path) {
  live();
  std::vector<base::Path> missing;
  for (base::Path folder = path; !exists(folder); folder = folder.parent_path()) missing.push_back(folder);
  for (; !missing.empty(); missing.pop_back()) {
    create_directory(missing.back());
    sync_directory(missing.back().parent_path());
  }
}

void CrashFileSystem::rename(const base::Path& from, const base::Path& to) {
  live();
  const bool replaces = exists(to);
  const base::Path old = grave();
  if (replaces) std::filesystem::copy(to, old);
  disk_->rename(from, to);
  for (const auto& file : files_) {
    if (file->path == from) file->path = to;
    if (file->path.parent_path() == from) file->path = to / file->path.filename();
  }
  changes_.push_back({to.parent_path(), [=] {
                        std::filesystem::rename(to, from);
                        if (replaces) std::filesystem::copy(old, to);
                      }});
}

void CrashFileSystem::remove(const base::Path& path) {
  live();
  const base::Path old = grave();
  std::filesystem::rename(path, old);
  changes_.push_back({path.parent_path(), [=] { std::filesystem::rename(old, path); }});
}

void CrashFileSystem::remove_all(const base::Path& path) {
  if (dies()) {  // half-way: the first file is gone
    if (exists(path) && std::filesystem::is_directory(path) && !std::filesystem::is_empty(path)) {
      std::filesystem::remove_all(*std::filesystem::directory_iterator(path));
    }
    throw Crash();
  }
  if (!exists(path)) return;
  const base::Path old = grave();
  std::filesystem::rename(path, old);
  changes_.push_back({path.parent_path(), [=] { std::filesystem::rename(old, path); }});
}

}  // namespace ddpm::checkpoint
