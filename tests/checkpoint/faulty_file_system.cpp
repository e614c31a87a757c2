#include "checkpoint/faulty_file_system.h"

#include <vector>

namespace ddpm::checkpoint {

class FaultyFile : public base::WritableFile {
 public:
  FaultyFile(FaultyFileSystem& system, std::unique_ptr<base::WritableFile> file)
      : system_(system), file_(std::move(file)) {}

  void write(std::span<const std::byte> bytes) override {
    const bool fails = system_.strikes();
    if (fails && system_.fault_ == Fault::silent) return write_wrong(bytes);
    const bool half = fails && system_.fault_ == Fault::partial;
    if (half) file_->write(bytes.first(bytes.size() / 2));
    if (!fails || system_.fault_ == Fault::late) file_->write(bytes);
    if (fails) throw base::OutputError("simulated input/output error");
  }
  void sync() override {
    system_.change([&] { file_->sync(); });
  }
  void truncate(uint64_t size) override {
    system_.change([&] { file_->truncate(size); });
  }
  void close() override {
    system_.change([&] { file_->close(); });
  }

 private:
  void write_wrong(std::span<const std::byte> bytes) {
    std::vector<std::byte> wrong(bytes.begin(), bytes.end());
    wrong[wrong.size() / 2] ^= std::byte{1};
    file_->write(wrong);
  }

  FaultyFileSystem& system_;
  std::unique_ptr<base::WritableFile> file_;
};

std::unique_ptr<base::WritableFile> FaultyFileSystem::create_exclusive(const base::Path& path) {
  std::unique_ptr<base::WritableFile> file;
  change([&] { file = disk_->create_exclusive(path); });
  return std::make_unique<FaultyFile>(*this, std::move(file));
}

std::unique_ptr<base::WritableFile> FaultyFileSystem::open_append(const base::Path& path) {
  std::unique_ptr<base::WritableFile> file;
  change([&] { file = disk_->open_append(path); });
  return std::make_unique<FaultyFile>(*this, std::move(file));
}

}  // namespace ddpm::checkpoint
