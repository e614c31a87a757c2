#include "base/limited_child.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace ddpm::base {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr ChildLimits kLimits = {.memory_bytes = uint64_t{64} << 20U,
                                 .processor_time = std::chrono::seconds(2),
                                 .wall_time = std::chrono::seconds(20)};

/// Whether this process has no child left, not even a dead one.
bool has_no_child() { return ::waitpid(-1, nullptr, WNOHANG) < 0; }

class LimitedChildTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(has_no_child()); }
};

TEST_F(LimitedChildTest, WorkThatReturnsChangesNothingHere) {
  int here = 1;
  EXPECT_EQ(try_in_child(kLimits, [&] { here = 2; }), "");
  EXPECT_EQ(here, 1);
}

TEST_F(LimitedChildTest, AnErrorArrivesWithItsCodeAndText) {
  try {
    try_in_child(kLimits, [] { throw DatasetError("x.h5: its shape is [{}]", 3); });
    FAIL() << "returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::dataset);
    EXPECT_STREQ(error.what(), "x.h5: its shape is [3]");
  }
  EXPECT_THROW(try_in_child(kLimits, [] { throw std::runtime_error("odd"); }), Error);
}

TEST_F(LimitedChildTest, ALongErrorIsCutShort) {
  try {
    try_in_child(kLimits, [] { throw DatasetError("{}", std::string(1U << 20U, 'x')); });
    FAIL() << "returned";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("xxx"));
    EXPECT_LT(std::string(error.what()).size(), 4096U);
  }
}

TEST_F(LimitedChildTest, ACrashIsNamed) {
  EXPECT_EQ(try_in_child(kLimits, [] { ::raise(SIGSEGV); }), "was ended by signal 11 (Segmentation fault)");
  EXPECT_THAT(try_in_child(kLimits, [] { std::abort(); }), StartsWith("was ended by signal 6"));
  EXPECT_EQ(try_in_child(kLimits, [] { ::_exit(0); }), "ended without a result");
}

TEST_F(LimitedChildTest, EndlessWorkEndsByItsProcessorTime) {
  const auto start = std::chrono::steady_clock::now();
  const std::string end = try_in_child(kLimits, [] {
    for (std::atomic<int> i = 0;; ++i) {
    }
  });
  EXPECT_EQ(end, "took more than 2 s of processor time");
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLimits.wall_time);
}

TEST_F(LimitedChildTest, WorkThatWaitsForEverEndsByTheClock) {
  ChildLimits limits = kLimits;
  limits.wall_time = std::chrono::seconds(1);
  const auto wait_for_ever = [] {
    ::signal(SIGTERM, SIG_IGN);
    while (true) ::pause();
  };
  EXPECT_EQ(try_in_child(limits, wait_for_ever), "took longer than 1 s");
}

TEST_F(LimitedChildTest, MemoryIsLimitedToWhatIsAllowedBeyondThePresentUse) {
  const auto take = [](std::size_t mib) {
    return [mib] {
      std::vector<char> taken(mib << 20U, 1);
      *static_cast<volatile char*>(taken.data()) = 2;  // keeps the compiler from removing it all
    };
  };
  std::vector<char> present(std::size_t{256} << 20U, 1);  // does not count
  *static_cast<volatile char*>(present.data()) = 2;
  EXPECT_EQ(try_in_child(kLimits, take(32)), "");
  EXPECT_EQ(try_in_child(kLimits, take(128)), "wanted more than 64 MiB of memory");
  const auto more = [&] {
    limit_memory(uint64_t{256} << 20U);
    take(128)();
  };
  EXPECT_EQ(try_in_child(kLimits, more), "");
}

TEST_F(LimitedChildTest, NoFileIsWrittenAndNothingIsSaid) {
  const test::TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());  // where a core file would be
  testing::internal::CaptureStderr();
  const auto write = [&] {
    std::fputs("words\n", stderr);
    std::fflush(stderr);
    std::fputs("words\n", stdout);
    std::fflush(stdout);
    ::signal(SIGXFSZ, SIG_IGN);
    test::write_text(folder.path() / "new", "words");  // throws
  };
  EXPECT_THROW(try_in_child(kLimits, write), Error);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(try_in_child(kLimits, [] { std::abort(); }).substr(0, 19), "was ended by signal");
  std::filesystem::current_path(before);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.file_size(), 0U) << entry.path();
  }
}

TEST_F(LimitedChildTest, ConnectionsOfThisProcessAreNotTheChilds) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const auto expect_closed = [&] {
    for (const int end : pipe) {
      if (::fcntl(end, F_GETFD) != -1) throw DatasetError("descriptor {} is open", end);
    }
    if (::fcntl(STDIN_FILENO, F_GETFD) == -1) throw DatasetError("there is no standard input");
  };
  EXPECT_EQ(try_in_child(kLimits, expect_closed), "");
  for (const int end : pipe) EXPECT_EQ(::close(end), 0);
}

TEST_F(LimitedChildTest, HandlersOfThisProcessAreNotTheChilds) {
  static volatile sig_atomic_t seen = 0;
  const auto handler = [](int) { seen = 1; };
  const auto old = ::signal(SIGTERM, +handler);
  sigset_t blocked{};
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  EXPECT_THAT(try_in_child(kLimits, [] { ::raise(SIGTERM); }), StartsWith("was ended by signal 15"));
  EXPECT_THAT(try_in_child(kLimits, [] { ::raise(SIGUSR1); }), StartsWith("was ended by signal 10"));
  sigset_t now{};
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, &now);
  EXPECT_TRUE(sigismember(&now, SIGUSR1) != 0 && sigismember(&now, SIGTERM) == 0);
  ::signal(SIGTERM, old);
  EXPECT_EQ(seen, 0);
}

TEST_F(LimitedChildTest, OtherThreadsMayAllocateAllTheWhile) {
  std::jthread busy([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::vector<std::string>(100, std::string(100, 'x'));
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(try_in_child(kLimits, [] { std::vector<std::string>(100, std::string(100, 'x')); }), "");
  }
}

TEST_F(LimitedChildTest, AProcessThatMayNotHaveChildrenSaysSo) {
  // Runs in a child, since this limit does not bind root and other users cannot lift it again: so root changes its
  // user.
  EXPECT_EQ(try_in_child(kLimits,
                         [] {
                           constexpr uid_t kNobody = 65534;
                           if (::getuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return;
                           const rlimit none{.rlim_cur = 0, .rlim_max = 0};
                           if (::setrlimit(RLIMIT_NPROC, &none) != 0) return;
                           const std::string end = try_in_child(kLimits, [] {});
                           if (end.find("could not be started: Resource temporarily") != 0)
                             throw DatasetError("{}", end);
                         }),
            "");
}

}  // namespace
}  // namespace ddpm::base
