// Copies of sets on the storage of a host, of which another job finds something damaged meanwhile.
#include "data/stage.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "support/forwarding_files.h"

namespace ddpm::data {
namespace {

constexpr const char* kMark = ".in-doubt";

/// A disk on which another job doubts the copy once a shard of it is being copied.
class DoubtWhileCopying : public test::ForwardingFiles {
 public:
  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override {
    if (path.filename().string().find("shard-") != std::string::npos) test::write_text(path.parent_path() / kMark, "");
    return ForwardingFiles::create_exclusive(path);
  }
};

/// A disk on which another job doubts the copy right before this rank looks, some time after others may have looked.
class DoubtBeforeLooking : public test::ForwardingFiles {
 public:
  [[nodiscard]] bool exists(const base::Path& path) const override {
    if (path.filename() == kMark) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      test::write_text(path, "");
    }
    return ForwardingFiles::exists(path);
  }
};

class StageTest : public SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    const ImageFormat format = {.height = 4, .width = 3, .channels = 1, .dtype = base::DType::u8};
    on_rank_0([&] { info_ = write_sample_set(folder_ / "set", format, false, {2, 1, 3, 1, 2}); });
  }
  /// The folder to which the set is copied.
  [[nodiscard]] Path staged(base::FileSystem& files) const {
    const HostRank host{.rank = comm().rank(), .size = comm().size()};
    const base::Logger log(1, 2);  // says nothing
    const std::vector<Dataset::Source> sources = {{.path = folder_ / "set"}};
    return stage_sets(comm(), host, sources, folder_ / "stage", files, log).front().path;
  }
  /// All shards are as they were written.
  void expect_intact(const Path& copy) const {
    for (const ShardInfo& shard : info_.shards) EXPECT_EQ(base::sha256_file(copy / shard.file), shard.sha256);
  }

  DatasetInfo info_;  // on rank 0
  test::ForwardingFiles disk_;
};

TEST_F(StageTest, ADoubtThatIsCastWhileItCopiesStaysForTheNextStart) {
  DoubtWhileCopying doubted;
  const Path copy = staged(doubted);
  EXPECT_TRUE(std::filesystem::exists(copy / kMark));
  on_rank_0([&] {
    const ShardInfo& shard = info_.shards.back();
    test::flip_bit(copy / shard.file, static_cast<std::streamoff>(shard.header_size));
  });
  EXPECT_EQ(staged(disk_), copy);
  EXPECT_FALSE(std::filesystem::exists(copy / kMark));
  expect_intact(copy);
}

TEST_F(StageTest, ADoubtThatTheFirstRankMeetsIsLiftedOnceAllRanksHaveCompared) {
  const Path copy = staged(disk_);
  on_rank_0([&] {
    for (const ShardInfo& shard : info_.shards) {
      test::flip_bit(copy / shard.file, static_cast<std::streamoff>(shard.header_size));
    }
  });
  DoubtBeforeLooking doubted;
  EXPECT_EQ(comm().rank() == 0 ? staged(doubted) : staged(disk_), copy);
  EXPECT_FALSE(std::filesystem::exists(copy / kMark));
  expect_intact(copy);
}

}  // namespace
}  // namespace ddpm::data
