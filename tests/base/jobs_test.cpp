#include "base/jobs.h"

#include <atomic>
#include <csignal>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/limited_child.h"

namespace ddpm::base {
namespace {

constexpr std::size_t kJobs = 500;

/// Does so many jobs with as many threads, and leaves the signals of this one as they were.
void do_jobs() {
  std::atomic<std::size_t> done{0};
  run_jobs(kJobs, kJobs, [&](std::size_t /*number*/, std::size_t /*thread*/) { ++done; });
  if (done != kJobs) throw DatasetError("{} jobs were done", done.load());
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (::sigismember(&blocked, SIGTERM) != 0) throw DatasetError("SIGTERM is blocked");
}

TEST(Jobs, AreEachDoneOnce) { EXPECT_NO_THROW(do_jobs()); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which want memory for each thread
TEST(Jobs, AreDoneByTheThreadsThatCanBeStarted) {
  constexpr ChildLimits kNoRoomForAllStacks = {.memory_bytes = uint64_t{96} << 20U,
                                               .processor_time = std::chrono::seconds(10),
                                               .wall_time = std::chrono::seconds(60)};
  EXPECT_EQ(try_in_child(kNoRoomForAllStacks, do_jobs), "");
}
#endif

}  // namespace
}  // namespace ddpm::base
