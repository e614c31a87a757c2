// Saves where files cannot be made: once, twice, and because another run has taken the folder.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "base/error.h"
#include "run/saved_state.h"
#include "support/forwarding_files.h"

namespace ddpm::run::test {
namespace {

/// A disk on which files and folders whose names begin so cannot be made, so many times.
class FailingDisk : public ddpm::test::ForwardingFiles {
 public:
  FailingDisk(std::string names, int times) : names_(std::move(names)), times_(times) {}
  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override {
    strike(path);
    return ForwardingFiles::create_exclusive(path);
  }
  void create_directory(const base::Path& path) override {
    strike(path);
    ForwardingFiles::create_directory(path);
  }

 private:
  void strike(const base::Path& path) {
    if (times_ == 0 || !path.filename().string().starts_with(names_)) return;
    --times_;
    throw base::OutputError("{}: cannot create: Stale file handle", path.string());
  }

  std::string names_;
  int times_;
};

TEST(FailingSaver, AFileServerThatFailsOnceCostsNoCheckpoint) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path run = shared_folder(folder);
  // The folder of the checkpoint, a shard, the manifest, and LATEST, after which the checkpoint has its name already.
  for (const std::string& names : std::vector<std::string>{".tmp-step-", "shard-", "MANIFEST", ".LATEST"}) {
    const int victim = names == "shard-" ? world().size() - 1 : 0;
    for (const bool async : {true, false}) {
      const base::Path place = run / fmt::format("{}{}", names, async);
      auto disk = std::make_unique<FailingDisk>(names, world().rank() == victim ? 1 : 0);
      Trained saved(world(), place, 2, async, std::move(disk));
      saved.files->create_directories(place);
      saved.fill(1);
      saved.save();
      saved.fill(2);
      saved.saver.drain();
      EXPECT_EQ(saved.committed.size(), 1U) << names;
      ASSERT_EQ(saved.failures.size(), 1U) << names;
      EXPECT_EQ(saved.failures[0].failed_rank(), victim) << names;
      EXPECT_THAT(saved.failures[0].what(), testing::HasSubstr("Stale file handle"));
      EXPECT_EQ(saved.files->list(place / "checkpoints"), std::vector<std::string>{"step-00000001"}) << names;

      Trained wanted(world(), place / "wanted", 2, /*async=*/false);
      wanted.files->create_directories(place / "wanted");
      wanted.fill(1);
      wanted.save();
      EXPECT_EQ(state_hash(saved.store, saved.store.find().value()),
                state_hash(wanted.store, wanted.store.find().value()));
      comm::barrier(world());
    }
  }
}

TEST(FailingSaver, AFileServerThatFailsTwiceEndsTheRun) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path run = shared_folder(folder);
  for (const std::string& names : std::vector<std::string>{".tmp-step-", "shard-", "MANIFEST"}) {
    const base::Path place = run / names;
    const bool struck = world().rank() == (names == "shard-" ? world().size() - 1 : 0);
    Trained saved(world(), place, 0, /*async=*/true, std::make_unique<FailingDisk>(names, struck ? 2 : 0));
    saved.files->create_directories(place);
    saved.fill(1);
    try {
      saved.save();
      saved.saver.drain();
      ADD_FAILURE() << names << ": saved";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), testing::HasSubstr("Stale file handle"));
    }
    EXPECT_EQ(saved.failures.size(), 1U) << names;
    EXPECT_FALSE(saved.saver.pending());
    EXPECT_EQ(saved.saver.committed_step(), -1);
    EXPECT_TRUE(saved.committed.empty());
    comm::barrier(world());  // rank 0 removes what it has begun after all have thrown
    EXPECT_TRUE(saved.files->list(place / "checkpoints").empty()) << names;
    comm::barrier(world());
  }
}

TEST(FailingSaver, ARunThatHasLostItsFolderTriesNothingAgain) {
  const ddpm::test::TemporaryFolder folder;
  Trained saved(world(), shared_folder(folder), 0);
  bool owned = true;
  saved.store.set_guard([&owned] {
    if (!owned) throw base::OutputError("another run has taken it");
  });
  saved.fill(1);
  saved.save();
  owned = false;
  EXPECT_THROW(saved.saver.drain(), comm::AgreedError);
  EXPECT_TRUE(saved.failures.empty());
  EXPECT_FALSE(saved.store.find());
  comm::barrier(world());
}

}  // namespace
}  // namespace ddpm::run::test
