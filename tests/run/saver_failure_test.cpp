// Saves where files cannot be made: once, twice, and because another run has taken the folder.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <pthread.h>

#include "base/clock.h"
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

/// One that takes long for each attempt: to make its folder, and for each file of its own.
class SlowDisk final : public FailingDisk {
 public:
  using FailingDisk::FailingDisk;
  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override {
    std::this_thread::sleep_for(kDelay);
    return FailingDisk::create_exclusive(path);
  }
  void create_directory(const base::Path& path) override {
    std::this_thread::sleep_for(kDelay);
    FailingDisk::create_directory(path);
  }

 private:
  static constexpr auto kDelay = std::chrono::milliseconds(200);
};

/// As long as it lives, no thread can be started: none has room for so large a stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 48U);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_ = {};
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

TEST(FailingSaver, WhatIsAddedToACheckpointIsTriedOnceMoreToo) {
  const ddpm::test::TemporaryFolder folder;
  Trained saved(world(), shared_folder(folder), 0);
  saved.fill(1);
  int calls = 0;
  const auto fill = [&](checkpoint::SaveRequest& request) {
    request.state["call"] = ++calls;
    comm::do_on_root(world(), [&] {
      if (calls == 1) throw base::OutputError("metrics.jsonl: cannot sync: Input/output error");
    });
  };
  saved.saver.save(saved.model, saved.replica, "hash", fill);
  saved.saver.drain();
  EXPECT_EQ(saved.failures.size(), 1U);
  EXPECT_EQ(saved.store.find().value().manifest.state.at("call"), 2);
  comm::barrier(world());
}

TEST(FailingSaver, TheTimeThatTrainingWaitedIsThatOfAllAttempts) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path run = shared_folder(folder);
  for (const int failures : {0, 1}) {
    const base::Path place = run / std::to_string(failures);
    auto disk = std::make_unique<SlowDisk>("shard-", world().rank() == 0 ? failures : 0);
    Trained saved(world(), place, 2, /*async=*/false, std::move(disk));
    saved.files->create_directories(place);
    saved.fill(1);
    comm::barrier(world());
    const auto start = base::Clock::now();
    saved.save();
    const double whole = base::seconds_since(start);
    ASSERT_EQ(saved.stalls.size(), 1U);
    EXPECT_LE(saved.stalls[0], whole);
    EXPECT_GE(saved.stalls[0], (1 + failures) * 0.4) << "rank 0 makes a folder and a shard for each attempt";
    comm::barrier(world());
  }
}

TEST(FailingSaver, ARankThatCanStartNoThreadWritesByItself) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path run = shared_folder(folder);
  Trained saved(world(), run, 2);
  saved.fill(1);
  {
    std::optional<NoThreads> none;
    if (world().rank() == world().size() - 1) none.emplace();
    saved.save();
    if (none) {
      EXPECT_EQ(saved.saver.vote(), 0.0);
    }
  }
  EXPECT_TRUE(saved.saver.pending());
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGUSR1), 0);
  saved.fill(2);
  saved.saver.drain();
  EXPECT_TRUE(saved.failures.empty());
  EXPECT_EQ(saved.store.find().value().manifest.step, 1);
  comm::barrier(world());
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
