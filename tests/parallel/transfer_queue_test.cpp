#include "parallel/transfer_queue.h"

#include <atomic>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/pulse.h"
#include "comm/collectives.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

TEST(TransferQueue, RunsStagesInOrderAndFinishesAfterThem) {
  for (const auto mode : {TransferQueue::Mode::thread, TransferQueue::Mode::blocking}) {
    const auto comm = test::world().duplicate();
    TransferQueue queue(mode);
    std::vector<double> values(50, 1.0);
    for (double& value : values) {
      const auto sum = [&comm, &value] { return comm->all_reduce({&value, 1, base::DType::f64}, comm::ReduceOp::sum); };
      queue.push({{sum, sum}, [&value] { value += 0.5; }});
    }
    queue.wait_until_pending(3);
    queue.drain();
    const double ranks = comm->size();
    for (const double value : values) EXPECT_EQ(value, ranks * ranks + 0.5);
    EXPECT_GE(queue.take_exposed_seconds(), 0.0);
    EXPECT_EQ(queue.take_exposed_seconds(), 0.0);
  }
}

/// A collective that was recorded for a device: it never runs.
struct Recorded final : comm::Work::Impl {
  bool test() override { return false; }
  void wait() override {}
};

// A step that cannot be recorded as a CUDA graph is launched instead: nothing is wrong with what was recorded of it.
TEST(TransferQueue, WhatWasRecordedAndIsDiscardedIsNotReportedAsDropped) {
  TransferQueue queue(TransferQueue::Mode::stream);
  for (int i = 0; i < 3; ++i) {
    queue.push({{[] { return comm::Work(std::make_unique<Recorded>()); }}, {}});
  }
  queue.wait_for(0);
  ::testing::internal::CaptureStderr();
  queue.discard();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  queue.drain();
}

/// Is done when the thread of `pulse` waits, or after some seconds.
struct UntilSeenWaiting final : comm::Work::Impl {
  UntilSeenWaiting(const base::Pulse& p, std::atomic<bool>& s) : pulse(p), seen(s) {}
  bool test() override {
    seen = pulse.waiting();
    return seen || base::seconds_since(began) > 60.0;
  }
  void wait() override {}
  const base::Pulse& pulse;
  std::atomic<bool>& seen;
  base::Clock::time_point began = base::Clock::now();
};

// A watchdog does not accuse a rank that only waits for another one.
TEST(TransferQueue, WhoWaitsForItsThreadCanBeSeen) {
  const base::Pulse pulse;
  std::atomic<bool> seen = false;
  TransferQueue queue(TransferQueue::Mode::thread);
  const int64_t number =
      queue.push({{[&] { return comm::Work(std::make_unique<UntilSeenWaiting>(pulse, seen)); }}, {}});
  const int64_t before = pulse.count();
  queue.wait_for(number);
  EXPECT_TRUE(seen);
  EXPECT_FALSE(pulse.waiting());
  EXPECT_GT(pulse.count(), before);
}

TEST(TransferQueue, AFailureReachesTheOneWhoWaits) {
  TransferQueue queue(TransferQueue::Mode::thread);
  queue.push({{}, [] { throw base::CommunicationError("lost"); }});
  EXPECT_THROW(queue.drain(), base::CommunicationError);
}

}  // namespace
}  // namespace ddpm::parallel
