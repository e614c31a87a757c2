#include "base/file_lock.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/lock_file.h"
#include "base/sole_writer.h"
#include "support/temporary_folder.h"

namespace ddpm::base {
namespace {

class Locks : public testing::TestWithParam<LockKind> {
 protected:
  Locks() { test::write_text(path_, "a file"); }

  /// Whether another process gets the lock.
  [[nodiscard]] bool another_gets_it() const {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(FileLock(path_, GetParam()).held() ? 1 : 0);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
  }

  test::TemporaryFolder folder_;
  Path path_ = folder_.path() / "file";
};

TEST_P(Locks, ExcludeOtherProcessesUntilTheirEnd) {
  std::optional<FileLock> lock(std::in_place, path_, GetParam());
  EXPECT_TRUE(lock->held());
  EXPECT_FALSE(another_gets_it());
  lock.reset();
  EXPECT_TRUE(another_gets_it());
}

TEST_P(Locks, OfAMissingFileAreAnError) { EXPECT_THROW(FileLock(folder_.path() / "none", GetParam()), OutputError); }

INSTANTIATE_TEST_SUITE_P(Kinds, Locks, testing::Values(LockKind::flock, LockKind::fcntl),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

TEST_P(Locks, ThatAreSharedExcludeOnlyThoseWhoWantThemAlone) {
  FileLock lock(path_, GetParam(), Hold::alone);
  lock.change(Hold::shared);
  EXPECT_TRUE(lock.held());
  const auto exit_code = [&](Hold hold) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(FileLock(path_, GetParam(), hold).held() ? 1 : 0);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(exit_code(Hold::alone), 0);
  EXPECT_EQ(exit_code(Hold::shared), 1);
  lock.change(Hold::alone);
  EXPECT_EQ(exit_code(Hold::shared), 0);
}

TEST(LockFile, IsRemovedByTheLastWhoLetsGo) {
  const test::TemporaryFolder folder;
  const auto files = posix_file_system();
  const Path place = folder.path() / "lock";
  std::optional<LockFile> first(std::in_place, *files, place, Hold::alone);
  EXPECT_TRUE(first->held());
  EXPECT_TRUE(first->excludes());
  EXPECT_FALSE(LockFile(*files, place, Hold::shared).held());
  first->share();
  std::optional<LockFile> second(std::in_place, *files, place, Hold::shared);
  EXPECT_TRUE(second->held());
  EXPECT_FALSE(LockFile(*files, place, Hold::alone).held());
  first.reset();
  EXPECT_TRUE(files->exists(place)) << "the second holds it";
  EXPECT_FALSE(LockFile(*files, place, Hold::alone).held());
  second.reset();
  EXPECT_FALSE(files->exists(place));
}

TEST(LockFile, OfOthersThatCameAfterItWasRemovedStays) {
  const test::TemporaryFolder folder;
  const auto files = posix_file_system();
  const Path place = folder.path() / "lock";
  std::optional<LockFile> first(std::in_place, *files, place, Hold::alone);
  files->remove(place);
  const LockFile second(*files, place, Hold::alone);
  EXPECT_TRUE(second.held());
  first.reset();
  EXPECT_TRUE(files->exists(place));
}

TEST(SoleWriter, KeepsOthersOutUntilItsEndAndLeavesNothing) {
  const test::TemporaryFolder folder;
  const auto files = posix_file_system();
  const Path target = folder.path() / "output";
  const auto another_gets_it = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        const SoleWriter sole(*files, target);
        ::_exit(1);
      } catch (const OutputError& error) {
        const bool named = std::string(error.what()).find(target.string() + ": another process") != std::string::npos;
        ::_exit(named ? 0 : 2);
      }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  {
    const SoleWriter sole(*files, target);
    EXPECT_TRUE(sole.excludes());
    EXPECT_EQ(another_gets_it(), 0);
    EXPECT_EQ(another_gets_it(), 0) << "a process that was refused has removed the lock";
  }
  EXPECT_EQ(files->list(folder.path()).size(), 0);
  test::write_text(folder.path() / ".output.lock", "left by a killed process");
  { const SoleWriter sole(*files, target); }
  EXPECT_EQ(files->list(folder.path()).size(), 0);
}

}  // namespace
}  // namespace ddpm::base
