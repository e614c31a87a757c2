// A checkpoint that cannot be read just now, that an active run removes meanwhile, or that a newer version has written,
// is not called damaged.
#include <new>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/file_error.h"
#include "base/sha256.h"
#include "checkpoint/faulty_file_system.h"
#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A disk on which something happens whenever a file is about to be read or measured.
class WatchedDisk : public FaultyFileSystem {
 public:
  explicit WatchedDisk(std::function<void(const base::Path&)> happens)
      : FaultyFileSystem(0, Fault::refused, false), happens_(std::move(happens)) {}
  [[nodiscard]] std::string read(const base::Path& path, uint64_t max_bytes) const override {
    happens_(path);
    return disk_->read(path, max_bytes);
  }
  [[nodiscard]] uint64_t file_size(const base::Path& path) const override {
    happens_(path);
    return disk_->file_size(path);
  }

 private:
  std::function<void(const base::Path&)> happens_;
};

class Access : public StoreTest {
 protected:
  void SetUp() override {
    for (const int64_t step : {10, 20, 30}) save_step(store_, world(), step);
  }
};

TEST_F(Access, WhatCannotBeReadNowIsNotPassedOver) {
  const int last = world().size() - 1;
  for (const std::string& name : {std::string(kManifestName), shard_name(last, world().size())}) {
    WatchedDisk disk([&](const base::Path& path) {
      if (path == step_folder(30) / name) throw base::AccessError("{}: cannot open: Stale file handle", path.string());
    });
    CheckpointStore store(disk, world(), run_, logger_);
    try {
      (void)store.find();
      ADD_FAILURE() << "found one";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), HasSubstr("Stale file handle"));
      EXPECT_THAT(error.what(), HasSubstr("may be whole"));
    }
    const std::vector<CheckpointInfo> found = store.list(true);
    ASSERT_EQ(found.size(), 3U);
    EXPECT_TRUE(found.back().unreadable);
    EXPECT_FALSE(found.front().unreadable);
  }
  EXPECT_EQ(store_.find()->manifest.step, 30);
}

/// Gives the manifest of a checkpoint the number of the next format, and a checksum that matches.
void make_newer(const base::Path& folder) {
  std::string body = test::read_text(folder / kManifestName);
  body.resize(body.rfind("\"sha256\""));
  const std::string format = fmt::format("\"format\": {}", kManifestFormat);
  body.replace(body.find(format), format.size(), fmt::format("\"format\": {}", kManifestFormat + 1));
  test::write_text(folder / kManifestName, fmt::format("{}\"sha256\": \"{}\"\n}}\n", body, base::sha256_hex(body)));
}

TEST_F(Access, WhatANewerVersionHasWrittenIsNotPassedOver) {
  on_disk([&] {
    for (const int64_t step : {20, 30}) make_newer(step_folder(step));
  });
  try {
    (void)store_.find();
    ADD_FAILURE() << "found one";
  } catch (const NewerCheckpointError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("format {}, this program reads {}: a newer ddpm wrote it",
                                                    kManifestFormat + 1, kManifestFormat)));
    EXPECT_THAT(error.what(), HasSubstr(step_folder(30).string() + " moved out of the run"));
  }
  EXPECT_THROW((void)store_.open(step_folder(20)), comm::AgreedError);
  for (const bool deep : {false, true}) {
    const std::vector<CheckpointInfo> found = store_.list(deep);
    ASSERT_EQ(found.size(), 3U);
    EXPECT_FALSE(found[0].newer);
    EXPECT_TRUE(found[1].newer);
    EXPECT_TRUE(found[2].newer);
    EXPECT_FALSE(found[2].unreadable);
    EXPECT_THAT(found[2].problem, HasSubstr("a newer ddpm wrote it"));
  }
  CheckpointStore later(*files_, world(), run_, logger_);
  save_step(later, world(), 40, {.keep_latest = 2});  // retention counts and removes neither
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000020", "step-00000030", "step-00000040"));
}

/// A disk that cannot say whether a folder is there.
class MuteDisk : public WatchedDisk {
 public:
  explicit MuteDisk(base::Path folder) : WatchedDisk([](const base::Path&) {}), folder_(std::move(folder)) {}
  [[nodiscard]] bool exists(const base::Path& path) const override {
    if (path == folder_) throw base::AccessError("{}: cannot examine: Input/output error", path.string());
    return WatchedDisk::exists(path);
  }

 private:
  base::Path folder_;
};

TEST_F(Access, AFolderThatMayBeGoneOrNotIsNotPassedOver) {
  on_disk([&] { files_->remove(step_folder(30) / kManifestName); });
  MuteDisk disk(step_folder(30));
  CheckpointStore store(disk, world(), run_, logger_);
  EXPECT_THROW((void)store.find(), UnreadableError);
  EXPECT_TRUE(store.list(false).back().unreadable);
  EXPECT_EQ(store_.find()->manifest.step, 20);
}

TEST_F(Access, OnlyDamageOfAllCheckpointsIsThatNoneIsReadable) {
  const auto damage = [&](int64_t step) { on_disk([&] { files_->remove(step_folder(step) / kManifestName); }); };
  damage(30);
  {
    WatchedDisk disk([&](const base::Path& path) {
      if (path == step_folder(20) / kManifestName) throw std::bad_alloc();
    });
    CheckpointStore store(disk, world(), run_, logger_);
    try {
      (void)store.find();
      ADD_FAILURE() << "found one";
    } catch (const NoneReadableError&) {
      ADD_FAILURE() << "want of memory is taken for damage";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::bug);
    }
  }
  comm::barrier(world());
  damage(20);
  damage(10);
  EXPECT_THROW((void)store_.find(), NoneReadableError);
  on_disk([&] {
    for (const int64_t step : {10, 20, 30}) files_->remove_all(step_folder(step));
  });
  EXPECT_THROW((void)store_.find(), NoneReadableError);  // LATEST names one
}

TEST_F(Access, DamageIsNotTakenForWantOfAccess) {
  on_disk([&] { files_->remove(step_folder(30) / shard_name(0, world().size())); });
  EXPECT_FALSE(store_.list(false).back().unreadable);
  EXPECT_EQ(store_.find()->manifest.step, 20);
}

TEST_F(Access, APipeInPlaceOfAShardIsNamed) {
  const base::Path shard = step_folder(30) / shard_name(0, world().size());
  on_disk([&] {
    files_->remove(shard);
    ASSERT_EQ(::mkfifo(shard.c_str(), 0600), 0);
  });
  EXPECT_THAT(store_.list(false).back().problem, HasSubstr("not a regular file"));
  EXPECT_EQ(store_.find()->manifest.step, 20);
}

TEST_F(Access, AManifestOfAnotherStepIsSeenWithoutReadingShards) {
  on_disk([&] { std::filesystem::rename(step_folder(10), step_folder(50)); });
  EXPECT_THAT(store_.list(false).back().problem, HasSubstr("its manifest is of step 10"));
  // Retention does not count it: 40 and 30 stay beside it.
  save_step(store_, world(), 40, {.keep_latest = 2});
  EXPECT_THAT(names(), ElementsAre("step-00000030", "step-00000040", "step-00000050"));
}

TEST_F(Access, ACheckpointThatIsRemovedMeanwhileIsLeftOut) {
  for (const bool deep : {false, true}) {
    save_step(store_, world(), 10, {.keep_latest = 10});
    WatchedDisk disk([&](const base::Path& path) {
      if (path.parent_path() == step_folder(10)) std::filesystem::remove_all(step_folder(10));
    });
    CheckpointStore store(disk, world(), run_, logger_);
    std::vector<int64_t> steps;
    for (const CheckpointInfo& info : store.list(deep)) {
      EXPECT_EQ(info.problem, "");
      steps.push_back(info.step);
    }
    EXPECT_THAT(steps, ElementsAre(20, 30));
  }
}

TEST_F(Access, TheNewestIsLookedForAgainWhenItWasRemovedMeanwhile) {
  bool first = true;
  WatchedDisk disk([&](const base::Path& path) {
    if (path.parent_path() != step_folder(30) || !std::exchange(first, false)) return;
    std::filesystem::remove_all(step_folder(30));
  });
  CheckpointStore store(disk, world(), run_, logger_);
  EXPECT_EQ(store.find()->manifest.step, 20);
}

TEST_F(Access, ARunThatLostItsFolderRemovesNothing) {
  store_.set_guard([&] {
    if (files_->exists(step_folder(40))) throw base::OutputError("another run has taken the folder");
  });
  EXPECT_THROW(save_step(store_, world(), 40, {.keep_latest = 1}), comm::AgreedError);
  comm::barrier(world());
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000020", "step-00000030", "step-00000040"));
  EXPECT_EQ(test::read_text(run_ / "LATEST"), "step-00000030\n");
}

TEST_F(Access, WhatLaterStartsCouldNotReadIsNotPublished) {
  Elements elements;
  if (world().rank() == 0) elements.add_whole({"other", {3}});
  elements.fill(40);
  const auto refuse = [](const Manifest& manifest, const std::string& origin) {
    EXPECT_EQ(manifest.step, 40);
    throw base::OutputError("{}: no such number", origin);
  };
  EXPECT_THROW(store_.save({.step = 40, .slices = elements.to_save(), .check = refuse}), comm::AgreedError);
  comm::barrier(world());
  EXPECT_THAT(names(), Not(testing::Contains("step-00000040")));
}

}  // namespace
}  // namespace ddpm::checkpoint
