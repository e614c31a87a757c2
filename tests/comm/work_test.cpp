#include <memory>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/pulse.h"
#include "comm/communicator.h"

namespace ddpm::comm {
namespace {

/// Is done when it has been tested `tests` times.
struct Countdown final : Work::Impl {
  explicit Countdown(int tests) : left(tests) {}
  bool test() override { return --left <= 0; }
  void wait() override { left = 0; }
  int left;
};

Work countdown(int tests) { return Work(std::make_unique<Countdown>(tests)); }

struct Failing final : Work::Impl {
  bool test() override { return false; }
  void wait() override { throw base::CommunicationError("lost"); }
};

/// What `action` prints on stderr.
template <typename Action>
std::string printed_by(Action action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

TEST(Work, DefaultIsComplete) {
  Work work;
  EXPECT_TRUE(work.test());
  work.wait();
}

TEST(Work, TestIsTrueFromTheMomentOfCompletion) {
  Work work = countdown(2);
  EXPECT_FALSE(work.test());
  EXPECT_TRUE(work.test());
  EXPECT_TRUE(work.test());
}

TEST(Work, WhoWaitsCanBeSeen) {
  struct Seen final : Work::Impl {
    Seen(const base::Pulse& f, bool& w) : flag(f), while_waiting(w) {}
    bool test() override { return false; }
    void wait() override {
      while_waiting = flag.waiting();
      std::thread([&] { Work(std::make_unique<Countdown>(1)).wait(); }).join();  // another thread's waits do not count
      while_waiting = while_waiting && flag.waiting();
    }
    const base::Pulse& flag;
    bool& while_waiting;
  };
  const base::Pulse flag;
  bool while_waiting = false;
  EXPECT_FALSE(flag.waiting());
  Work(std::make_unique<Seen>(flag, while_waiting)).wait();
  EXPECT_TRUE(while_waiting);
  EXPECT_FALSE(flag.waiting());
  EXPECT_THROW(Work(std::make_unique<Failing>()).wait(), base::CommunicationError);
  EXPECT_FALSE(flag.waiting());
}

TEST(Work, DroppingOneInFlightIsReported) {
  EXPECT_THAT(printed_by([] { Work dropped = countdown(9); }), testing::HasSubstr("dropped before it was done"));
}

TEST(Work, AssigningOverOneInFlightIsReported) {
  EXPECT_THAT(printed_by([] {
                Work work = countdown(9);
                work = Work();
              }),
              testing::HasSubstr("dropped before it was done"));
}

TEST(Work, DoneOrMovedFromIsSilent) {
  EXPECT_EQ(printed_by([] {
              Work first = countdown(9);
              Work second = std::move(first);
              second.wait();
            }),
            "");
}

TEST(Work, AForgottenOneIsSilent) {
  EXPECT_EQ(printed_by([] {
              Work work = countdown(9);
              work.forget();
              EXPECT_TRUE(work.test());
            }),
            "");
}

// MPI may still write to the buffers of one that failed on the way to another rank.
TEST(Work, AFailedOneKeepsItsBuffers) {
  struct Told final : Work::Impl {
    explicit Told(bool& d) : destroyed(d) {}
    ~Told() override { destroyed = true; }
    bool test() override { return false; }
    void wait() override { throw base::CommunicationError("lost"); }
    bool& destroyed;
  };
  bool destroyed = false;
  Work work(std::make_unique<Told>(destroyed));
  EXPECT_THROW(work.wait(), base::CommunicationError);
  EXPECT_FALSE(destroyed);
}

TEST(Work, AFailedOneIsOver) {
  EXPECT_EQ(printed_by([] {
              Work work(std::make_unique<Failing>());
              EXPECT_THROW(work.wait(), base::CommunicationError);
              EXPECT_TRUE(work.test());
            }),
            "");
}

}  // namespace
}  // namespace ddpm::comm
