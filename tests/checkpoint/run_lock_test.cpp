#include "checkpoint/run_lock.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failing_calls.h"
#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};
const LockOptions kFast = {.timing = {.renew = std::chrono::milliseconds(2)}};

/// Process id of a process that has just ended.
int64_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

class RunLockTest : public StoreTest {
 protected:
  void SetUp() override {
    for (const char* job : {"SLURM_JOB_ID", "PBS_JOBID", "FLUX_ENCLOSING_ID", "FLUX_JOB_ID"}) unsetenv(job);
    StoreTest::SetUp();
  }
  RunLock acquire(const LockOptions& options = {}) {
    return RunLock::acquire(*files_, world(), run_, logger_, options);
  }
  /// Lets a lock of another host lie there, as old as `age`.
  void leave_lock(std::chrono::seconds age) {
    LockOwner elsewhere = LockOwner::self();
    elsewhere.host = "another-host";
    elsewhere.job_id = "17";
    leave_lock(age, to_text(elsewhere));
  }
  void leave_lock(std::chrono::seconds age, const std::string& owner) {
    on_disk([&] {
      test::write_text(lock(), owner + "renewed 5\n");
      std::filesystem::last_write_time(lock(), std::filesystem::file_time_type::clock::now() - age);
    });
  }
  /// Takes the folder as another run on another host would.
  void take_away() {
    on_disk([&] {
      LockOwner other = LockOwner::self();
      other.host = "another-host";
      std::filesystem::remove(lock());
      test::write_text(lock(), to_text(other));
    });
  }
  /// Throws on all ranks if it throws on rank 0.
  static void expect_owned(RunLock& held) {
    comm::agree(world(), [&] { held.expect_owned(); });
  }
  [[nodiscard]] base::Path lock() const { return run_ / "LOCK"; }
  /// Whether there is a lock, as rank 0 sees it before it continues.
  [[nodiscard]] bool locked() {
    return comm::agree_on_root(world(), [&] { return std::string(files_->exists(lock()) ? "yes" : "no"); }) == "yes";
  }
  void expect_refused(const std::string& reason, const LockOptions& options = {}) {
    try {
      const RunLock taken = acquire(options);
      ADD_FAILURE() << "locked twice";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
  }
};

TEST_F(RunLockTest, RefusesASecondRunAndIsFreeAfterRelease) {
  RunLock first = acquire();
  EXPECT_TRUE(locked());
  expect_refused("in use by process");
  EXPECT_TRUE(locked());  // the refused run left it alone
  first.release();
  EXPECT_FALSE(locked());
  acquire().release();
}

TEST_F(RunLockTest, AnErrorOnItsWayFreesTheFolder) {
  {
    const RunLock lost = acquire();
    EXPECT_TRUE(locked());
  }
  EXPECT_FALSE(locked());
}

TEST_F(RunLockTest, AStartThatFailsAfterItHasMadeTheLockRemovesIt) {
  // Any examination of a file may fail, including that of the lock which was just made.
  int failures = 0;
  for (int passed = 0; passed < 5; ++passed) {
    try {
      const auto acquire_with_failure = [&] {
        std::optional<test::FailingCalls> failing;
        if (world().rank() == 0) failing.emplace("stat", EACCES, 1, passed);
        return acquire();
      };
      acquire_with_failure().release();
    } catch (const comm::AgreedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("Permission denied"));
      ++failures;
    }
    EXPECT_FALSE(locked()) << passed;
  }
  EXPECT_GE(failures, 1);
}

TEST_F(RunLockTest, ADeadOwnerIsReplaced) {
  on_disk([&] {
    LockOwner dead = LockOwner::self();
    dead.pid = dead_process();
    test::write_text(lock(), to_text(dead));
  });
  RunLock taken = acquire();
  on_disk([&] { EXPECT_THAT(files_->list(run_), testing::ElementsAre("LOCK")); });
  taken.release();
}

TEST_F(RunLockTest, AReusedProcessIdIsNotTheOwner) {
  on_disk([&] {
    LockOwner earlier = LockOwner::self();
    earlier.process_start.replace(earlier.process_start.rfind('/'), std::string::npos, "/1");
    test::write_text(lock(), to_text(earlier));
  });
  acquire().release();
}

TEST_F(RunLockTest, AnOwnerOnAnotherHostIsBelieved) {
  on_disk([&] {
    LockOwner elsewhere = LockOwner::self();
    elsewhere.host = "another-host";
    elsewhere.pid = dead_process();
    test::write_text(lock(), to_text(elsewhere));
  });
  expect_refused("on another-host");
}

TEST_F(RunLockTest, AnOwnerInAnotherContainerIsBelieved) {
  for (const char* start : {"another-boot/pid:[1]/5", "pid:[1]/5", ""}) {
    on_disk([&] {
      LockOwner elsewhere = LockOwner::self();
      elsewhere.pid = dead_process();
      elsewhere.process_start = start;
      test::write_text(lock(), to_text(elsewhere));
    });
    expect_refused("in use by process");
  }
}

TEST_F(RunLockTest, ALockThatCannotBeReadIsRefused) {
  on_disk([&] { std::filesystem::create_directory(lock()); });
  expect_refused("LOCK");
  EXPECT_THROW(RunLock::acquire(*files_, world(), run_, logger_, {.force = true}), comm::AgreedError);
}

TEST_F(RunLockTest, ALockTornByACrashIsReplaced) {
  on_disk([&] { test::write_text(lock(), to_text(LockOwner::self()).substr(0, 20)); });
  acquire().release();
}

TEST_F(RunLockTest, ReleaseLeavesALockThatOthersHaveTaken) {
  RunLock mine = acquire();
  on_disk([&] { test::write_text(lock(), to_text(LockOwner::self())); });
  EXPECT_THROW(mine.release(), comm::AgreedError);
  EXPECT_TRUE(locked());
}

TEST_F(RunLockTest, IsRenewedUntilItIsReleased) {
  RunLock held = acquire(kFast);
  on_disk([&] {
    std::set<std::string> seen;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (seen.size() < 4 && std::chrono::steady_clock::now() < end) {
      const std::string text = test::read_text(lock());
      EXPECT_NO_THROW((void)parse_lock(text)) << text;  // whole at any moment
      seen.insert(text);
    }
    EXPECT_GE(seen.size(), 4U);
  });
  expect_owned(held);
  held.release();
  EXPECT_FALSE(locked());
}

TEST_F(RunLockTest, AFreshLockIsRefusedAndTheRefusalSaysHowLong) {
  leave_lock(std::chrono::seconds(100));
  expect_refused("process ");
  expect_refused("on another-host, job 17, which renewed its lock 10");
  expect_refused("stale 300 s after its last renewal, this one in ");
  expect_refused("--force-unlock");
}

TEST_F(RunLockTest, AStaleLockIsTakenOver) {
  leave_lock(std::chrono::seconds(301));
  RunLock taken = acquire({.timing = {.watch = std::chrono::milliseconds(50)}});
  on_disk([&] {
    EXPECT_EQ(parse_lock(test::read_text(lock())).host, LockOwner::self().host);
    EXPECT_THAT(files_->list(run_), testing::ElementsAre("LOCK"));
  });
  taken.release();
}

/// What other versions may write: more and fewer keys, or what is not understood.
const std::vector<std::string> kForeign = {
    "{\n  \"host\": \"another-host\",\n  \"nonce\": \"1\",\n  \"cluster\": \"one\"\n}\n",
    "{\n  \"host\": {\"name\": \"another-host\"}\n}\n", "owner {}\n"};

TEST_F(RunLockTest, ALockOfAnotherVersionCountsLikeAnyOther) {
  for (const std::string& owner : kForeign) {
    leave_lock(std::chrono::seconds(100), owner);
    expect_refused("which renewed its lock 10");
    leave_lock(std::chrono::seconds(301), owner);
    acquire({.timing = {.watch = std::chrono::milliseconds(50)}}).release();
    leave_lock(std::chrono::seconds(0), owner);
    acquire({.force = true}).release();
  }
}

TEST_F(RunLockTest, AnOldLockThatIsRenewedWhileItIsWatchedIsRefused) {
  // This is as if the clock that stamps files were wrong: the renewals are seen nevertheless.
  for (const bool foreign : {false, true}) {
    leave_lock(std::chrono::hours(1));
    if (foreign) leave_lock(std::chrono::hours(1), kForeign[0]);
    std::atomic<bool> done = false;
    std::thread owner([&] {
      if (world().rank() != 0) return;
      const std::string text = test::read_text(lock());
      for (int n = 6; !done; ++n) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        test::write_text(lock(), text.substr(0, text.rfind("renewed")) + fmt::format("renewed {}\n", n));
        std::filesystem::last_write_time(lock(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
      }
    });
    expect_refused("on another-host", {.timing = {.watch = std::chrono::milliseconds(2000)}});
    done = true;
    owner.join();
  }
}

TEST_F(RunLockTest, ABatchJobWaitsUntilALockIsStale) {
  setenv("PBS_JOBID", "18.server", 1);
  leave_lock(std::chrono::seconds(30));
  expect_refused("on another-host, job 17, which renewed its lock 3");  // it may be alive
  leave_lock(std::chrono::seconds(100));
  const auto begun = std::chrono::steady_clock::now();
  acquire({.timing = {.stale = std::chrono::seconds(101), .watch = std::chrono::milliseconds(100)}}).release();
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(100));
  EXPECT_FALSE(locked());
  unsetenv("PBS_JOBID");
}

TEST_F(RunLockTest, ABatchJobIsRefusedWhenTheOwnerRenewsItsLockAndStartsWhenTheOwnerEnds) {
  setenv("PBS_JOBID", "18.server", 1);
  for (const bool ends : {false, true}) {
    leave_lock(std::chrono::seconds(100));
    std::thread owner([&] {
      if (world().rank() != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (ends) {
        std::filesystem::remove(lock());
      } else {
        test::write_text(lock(), test::read_text(lock()) + "renewed 6\n");
      }
    });
    if (ends) {
      acquire().release();
    } else {
      expect_refused("on another-host, job 17, which renewed its lock 0 s ago");
    }
    owner.join();
  }
  unsetenv("PBS_JOBID");
}

TEST_F(RunLockTest, ForceTakesAnyLock) {
  leave_lock(std::chrono::seconds(0));
  acquire({.force = true}).release();
  RunLock living = acquire();
  RunLock taker = acquire({.force = true});
  expect_owned(taker);
  EXPECT_THROW(expect_owned(living), comm::AgreedError);
  taker.release();
  EXPECT_THROW(living.release(), comm::AgreedError);
}

TEST_F(RunLockTest, ARenewalNoticesThatTheLockIsLostAndLeavesTheTakersAlone) {
  const RunLock held = acquire(kFast);
  take_away();
  const std::string taken = test::read_text(lock());
  on_disk([&] {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!held.lost() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(held.lost());
    EXPECT_EQ(test::read_text(lock()), taken);
  });
}

TEST_F(RunLockTest, ACopyOfTheLockIsNotTheLock) {
  RunLock held = acquire();
  expect_owned(held);
  const base::Path moved = run_.string() + ".moved";
  on_disk([&] {
    std::filesystem::rename(run_, moved);
    std::filesystem::copy(moved, run_, std::filesystem::copy_options::recursive);
  });
  try {
    expect_owned(held);
    ADD_FAILURE() << "the folder is a copy";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_THAT(error.what(), HasSubstr("the folder was replaced by a copy"));
  }
  on_disk([&] {
    std::filesystem::remove_all(run_);
    std::filesystem::rename(moved, run_);
  });
  expect_owned(held);
  held.release();
  EXPECT_FALSE(locked());
}

TEST_F(RunLockTest, WithoutItsLockARunWritesNoCheckpointAndRemovesNothing) {
  for (const bool vanished : {false, true}) {
    RunLock held = acquire();
    store_.set_guard([&] { held.expect_owned(); });
    save_step(store_, world(), 10);
    on_disk([&] { files_->create_directory(checkpoints() / ".tmp-step-00000020-0123456789abcdef"); });  // the taker's
    PendingSave pending = store_.begin({.step = 20, .slices = {}});  // sweeps what dead runs left: the lock is ours
    store_.write_shard(pending);
    on_disk([&] { files_->create_directory(checkpoints() / ".tmp-step-00000030-0123456789abcdef"); });
    take_away();
    if (vanished) on_disk([&] { files_->remove(lock()); });
    try {
      store_.commit(std::move(pending));
      ADD_FAILURE() << "published";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), HasSubstr(vanished ? "its lock is gone" : "on another-host has taken it"));
    }
    EXPECT_THROW(save_step(store_, world(), 30), comm::AgreedError);
    EXPECT_THROW(store_.set_aside_newer(5), comm::AgreedError);
    on_disk([&] {
      EXPECT_THAT(names(), testing::ElementsAre(".tmp-step-00000030-0123456789abcdef", "step-00000010"));
      std::filesystem::remove(lock());
    });
  }
}

TEST(LockOwner, OfAnEarlierStartOfTheSameJobIsGone) {
  LockOwner owner = LockOwner::self();
  owner.host = "another-host";
  owner.job_id = "17";
  LockOwner self = LockOwner::self();
  self.job_id = "17";
  EXPECT_FALSE(is_gone(owner, self));  // an equal start: perhaps two steps of one job
  self.restart_count = 1;
  EXPECT_TRUE(is_gone(owner, self));
  self.job_id = "18";
  EXPECT_FALSE(is_gone(owner, self));
  owner.job_id = self.job_id = "";
  EXPECT_FALSE(is_gone(owner, self));
}

TEST(LockOwner, OfAnotherVersionIsReadAsFarAsItIsKnown) {
  const LockOwner owner = parse_lock("{\"host\": \"node01\", \"cluster\": {\"name\": \"one\"}}\nrenewed 3\n");
  EXPECT_EQ(described(owner), "process 0 on node01");
  EXPECT_EQ(owner.nonce, "");
  EXPECT_FALSE(is_gone(owner, LockOwner::self()));
  EXPECT_THROW((void)parse_lock("{\n  \"host\": \"node01\""), base::OutputError);
}

TEST(LockOwner, ReadsBackWhatWasWritten) {
  const LockOwner owner = LockOwner::self();
  EXPECT_EQ(to_text(parse_lock(to_text(owner))), to_text(owner));
  EXPECT_FALSE(is_gone(owner, owner));
}

}  // namespace
}  // namespace ddpm::checkpoint
