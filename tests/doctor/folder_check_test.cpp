// Tests the check of the run folder on disks that behave correctly, and on some that do not.
#include "doctor/folder_check.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "comm/collectives.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"

namespace ddpm::doctor {
namespace {

using base::Path;
using testing::Each;
using testing::HasSubstr;

/// The disk, for test doubles that change some of its calls.
class Disk : public base::FileSystem {
 public:
  std::unique_ptr<base::WritableFile> create_exclusive(const Path& path) override {
    return disk_->create_exclusive(path);
  }
  std::unique_ptr<base::WritableFile> open_append(const Path& path) override { return disk_->open_append(path); }
  void sync_file(const Path& path) override { disk_->sync_file(path); }
  void sync_directory(const Path& path) override { disk_->sync_directory(path); }
  void create_directory(const Path& path) override { disk_->create_directory(path); }
  void create_directories(const Path& path) override { disk_->create_directories(path); }
  void rename(const Path& from, const Path& to) override { disk_->rename(from, to); }
  void remove(const Path& path) override { disk_->remove(path); }
  void remove_all(const Path& path) override { disk_->remove_all(path); }
  [[nodiscard]] bool exists(const Path& path) const override { return disk_->exists(path); }
  [[nodiscard]] std::string read(const Path& path, uint64_t max_bytes) const override {
    return disk_->read(path, max_bytes);
  }
  [[nodiscard]] uint64_t file_size(const Path& path) const override { return disk_->file_size(path); }
  [[nodiscard]] std::vector<std::string> list(const Path& path) const override { return disk_->list(path); }
  [[nodiscard]] uint64_t free_bytes(const Path& path) const override { return disk_->free_bytes(path); }

 private:
  std::unique_ptr<base::FileSystem> disk_ = base::posix_file_system();
};

bool is_last() { return test::world().rank() == test::world().size() - 1; }

/// The last rank has another disk mounted where the others have theirs.
class OwnDisk : public Disk {
 public:
  [[nodiscard]] bool exists(const Path& path) const override {
    return (test::world().size() == 1 || !is_last()) && Disk::exists(path);
  }
};
/// Names are looked up in a cache that is never refreshed.
class StaleNames : public Disk {
 public:
  [[nodiscard]] bool exists(const Path& path) const override {
    return path.filename().string().starts_with("file-") ? false : Disk::exists(path);
  }
};
/// O_EXCL is not honoured between hosts.
class NotExclusive : public Disk {
 public:
  std::unique_ptr<base::WritableFile> create_exclusive(const Path& path) override {
    return path.filename().string().starts_with("race-") ? open_append(path) : Disk::create_exclusive(path);
  }
};
/// The last rank reads another bit.
class WrongBit : public Disk {
 public:
  [[nodiscard]] std::string read(const Path& path, uint64_t max_bytes) const override {
    std::string text = Disk::read(path, max_bytes);
    if (is_last() && path.filename().string().starts_with("file-")) text[1000] = static_cast<char>(text[1000] ^ 1);
    return text;
  }
};
/// The last rank is over its quota.
class NoQuota : public Disk {
 public:
  void rename(const Path& from, const Path& to) override {
    if (is_last()) throw base::OutputError("{}: cannot rename to {}: Disk quota exceeded", from.string(), to.string());
    Disk::rename(from, to);
  }
};

/// Linux makes a lock by flock one by fcntl on NFS, so that the two exclude each other. Servers take their time.
base::FileLock lock_on_nfs(const Path& path, base::LockKind /*kind*/) {
  base::FileLock lock(path, base::LockKind::fcntl);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return lock;
}

class Folder : public testing::Test {
 protected:
  Folder() {
    if (test::world().rank() == 0) own_.emplace();
    path_ = comm::broadcast(test::world(), own_ ? own_->path().string() : "");
  }
  /// Returns the facts, which all ranks share; no file is left behind.
  FolderFacts check(base::FileSystem&& files, const Path& path, FolderOptions options = {}) {
    options.file_bytes = 65536;
    options.patience = std::chrono::milliseconds(200);
    const FolderFacts facts = FolderCheck(files, test::world(), path, options).run();
    EXPECT_TRUE(std::filesystem::is_empty(path_));
    comm::barrier(test::world());
    return facts;
  }
  FolderFacts check(base::FileSystem&& files) { return check(std::move(files), path_); }

  std::optional<test::TemporaryFolder> own_;
  Path path_;
};

std::size_t ranks() { return static_cast<std::size_t>(test::world().size()); }

TEST(FolderPatience, TwoWaitsEndBeforeTheCheckHasTo) {
  EXPECT_EQ(patience_within(60.0), FolderOptions().patience);
  for (const double seconds : {1.0, 8.0, 20.0, 39.0}) {
    EXPECT_EQ(2.0 * std::chrono::duration<double>(patience_within(seconds)).count(), seconds / 2.0);
  }
}

TEST_F(Folder, AGoodOnePasses) {
  const FolderFacts facts = check(Disk());
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.visits.size(), ranks());
  EXPECT_THAT(facts.winners, Each(1));
  for (const FolderVisit& visit : facts.visits) {
    EXPECT_EQ(visit.error, "");
    EXPECT_EQ(visit.damage, "");
    EXPECT_GE(visit.found_s, 0.0);
    EXPECT_GE(visit.seen_s, 0.0);
    EXPECT_EQ(visit.seconds.size(), 6U);
    EXPECT_EQ(visit.locks, (std::map<std::string, std::string>{{"flock", "excludes"}, {"fcntl", "excludes"}}));
  }
}

TEST_F(Folder, KindsOfLocksThatExcludeEachOtherAreTriedOneAfterTheOther) {
  const FolderFacts facts = check(Disk(), path_, {.lock = lock_on_nfs});
  ASSERT_EQ(facts.visits.size(), ranks());
  for (const FolderVisit& visit : facts.visits) {
    EXPECT_EQ(visit.locks, (std::map<std::string, std::string>{{"flock", "excludes"}, {"fcntl", "excludes"}}));
  }
}

TEST_F(Folder, OneThatIsNotThereIsTestedWhereItWouldBeMade) {
  const FolderFacts facts = check(Disk(), path_ / "runs" / "x");
  EXPECT_EQ(facts.error, "");
  if (test::world().rank() == 0) {
    EXPECT_EQ(facts.tested, path_.string());
    EXPECT_GT(facts.free_bytes, 0U);
  }
  EXPECT_FALSE(std::filesystem::exists(path_ / "runs"));
}

TEST_F(Folder, OneThatIsNoFolderIsAnErrorAndNobodyWaits) {
  const FolderFacts facts = check(Disk(), "/proc/no/folder");
  if (test::world().rank() == 0) {
    EXPECT_THAT(facts.error, HasSubstr("/proc"));
  }
  EXPECT_TRUE(facts.visits.empty());
}

TEST_F(Folder, AnotherDiskUnderTheSameNameIsSeen) {
  const FolderFacts facts = check(OwnDisk());
  ASSERT_EQ(facts.visits.size(), ranks());
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(facts.visits[rank].found_s<0.0, rank> 0 && rank == ranks() - 1);
  }
  EXPECT_EQ(facts.winners.empty(), ranks() > 1);
}

TEST_F(Folder, ARenameThatNobodySeesIsSeen) {
  for (const FolderVisit& visit : check(StaleNames()).visits) EXPECT_LT(visit.seen_s, 0.0);
}

TEST_F(Folder, CreatorsThatDoNotExcludeEachOtherAreCounted) {
  EXPECT_THAT(check(NotExclusive()).winners, Each(static_cast<int64_t>(ranks())));
}

TEST_F(Folder, AWrongBitIsSeen) {
  const FolderFacts facts = check(WrongBit());
  ASSERT_EQ(facts.visits.size(), ranks());
  for (std::size_t rank = 0; rank < ranks(); ++rank) EXPECT_EQ(facts.visits[rank].damage.empty(), rank < ranks() - 1);
}

TEST_F(Folder, AnErrorNamesTheFolderAndNotTheTestsFiles) {
  const FolderFacts facts = check(NoQuota());
  ASSERT_EQ(facts.visits.size(), ranks());
  EXPECT_EQ(facts.visits.back().error, path_.string() + ": cannot rename to a file: Disk quota exceeded");
  for (std::size_t rank = 0; rank + 1 < ranks(); ++rank) EXPECT_EQ(facts.visits[rank].error, "");
}

}  // namespace
}  // namespace ddpm::doctor
