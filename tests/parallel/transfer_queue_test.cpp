#include "parallel/transfer_queue.h"

#include "base/error.h"
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

TEST(TransferQueue, AFailureReachesTheOneWhoWaits) {
  TransferQueue queue(TransferQueue::Mode::thread);
  queue.push({{}, [] { throw base::CommunicationError("lost"); }});
  EXPECT_THROW(queue.drain(), base::CommunicationError);
}

}  // namespace
}  // namespace ddpm::parallel
