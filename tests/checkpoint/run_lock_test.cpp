#include "checkpoint/run_lock.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {
namespace {

using testing::HasSubstr;

/// Process id of a process that has just ended.
int64_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

class RunLockTest : public StoreTest {
 protected:
  RunLock acquire() { return RunLock::acquire(*files_, world(), run_, logger_); }
  [[nodiscard]] base::Path lock() const { return run_ / "LOCK"; }
  /// As rank 0 sees it, before it goes on.
  [[nodiscard]] bool locked() {
    return comm::agree_on_root(world(), [&] { return std::string(files_->exists(lock()) ? "yes" : "no"); }) == "yes";
  }
  void expect_refused(const std::string& reason) {
    try {
      const RunLock taken = acquire();
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
    earlier.process_start = "another boot/1";
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

TEST(LockOwner, OfAnEarlierStartOfTheSameJobIsGone) {
  LockOwner owner = LockOwner::self();
  owner.host = "another-host";
  owner.job_id = "17";
  LockOwner self = LockOwner::self();
  self.job_id = "17";
  EXPECT_FALSE(is_gone(owner, self));  // the same start: perhaps two steps of one job
  self.restart_count = 1;
  EXPECT_TRUE(is_gone(owner, self));
  self.job_id = "18";
  EXPECT_FALSE(is_gone(owner, self));
  owner.job_id = self.job_id = "";
  EXPECT_FALSE(is_gone(owner, self));
}

TEST(LockOwner, ReadsBackWhatWasWritten) {
  const LockOwner owner = LockOwner::self();
  EXPECT_EQ(to_text(parse_lock(to_text(owner))), to_text(owner));
  EXPECT_FALSE(is_gone(owner, owner));
}

}  // namespace
}  // namespace ddpm::checkpoint
