#include "support/fake_communicator.h"

#include <array>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/collectives.h"

namespace ddpm::test {
namespace {

using base::DType;

TEST(FakeCommunicator, PretendsAPlaceInALargeWorld) {
  TrafficCounts counts;
  const FakeCommunicator comm(513, 1024, counts);
  EXPECT_EQ(comm.rank(), 513);
  EXPECT_EQ(comm.size(), 1024);
  EXPECT_THROW(FakeCommunicator(4, 4, counts), base::InternalError);
}

TEST(FakeCommunicator, CountsCallsAndBytesOfEachOperation) {
  TrafficCounts counts;
  FakeCommunicator fake(1, 4, counts);
  comm::Communicator& comm = fake;
  comm.all_reduce({nullptr, 10, DType::f32}, comm::ReduceOp::sum).wait();
  comm.all_reduce({nullptr, 3, DType::bf16}, comm::ReduceOp::sum).wait();
  comm.reduce_scatter({nullptr, 40, DType::f32}, {nullptr, 10, DType::f32}, comm::ReduceOp::sum).wait();
  comm.all_gather({nullptr, 5, DType::f64}, {nullptr, 20, DType::f64}).wait();
  comm.broadcast({nullptr, 7, DType::u8}, 3).wait();
  comm.barrier().wait();
  const comm::Outgoing out{{nullptr, 6, DType::i64}, 2, 0};
  const comm::Incoming in{{nullptr, 2, DType::i32}, 0, 0};
  comm.exchange({&out, 1}, {&in, 1}).wait();

  const auto expect = [&](Operation operation, int64_t calls, int64_t bytes) {
    EXPECT_EQ(counts[operation].calls, calls);
    EXPECT_EQ(counts[operation].bytes, bytes);
  };
  expect(Operation::all_reduce, 2, 46);
  expect(Operation::reduce_scatter, 1, 160);
  expect(Operation::all_gather, 1, 160);
  expect(Operation::broadcast, 1, 7);
  expect(Operation::barrier, 1, 0);
  expect(Operation::send, 1, 48);
  expect(Operation::receive, 1, 8);
}

TEST(FakeCommunicator, MovesHostMemoryAsIfAllRanksWereAlike) {
  TrafficCounts counts;
  FakeCommunicator fake(2, 3, counts);
  comm::Communicator& comm = fake;
  std::array<int32_t, 2> part = {4, 5};
  std::array<int32_t, 6> all{};
  comm.all_gather({part.data(), 2, DType::i32}, {all.data(), 6, DType::i32}).wait();
  EXPECT_EQ(all, (std::array<int32_t, 6>{4, 5, 4, 5, 4, 5}));

  std::iota(all.begin(), all.end(), 0);
  comm.reduce_scatter({all.data(), 6, DType::i32}, {part.data(), 2, DType::i32}, comm::ReduceOp::sum).wait();
  EXPECT_EQ(part, (std::array<int32_t, 2>{4, 5}));

  comm.receive({part.data(), 2, DType::i32}, 0, 0).wait();
  EXPECT_EQ(part, (std::array<int32_t, 2>{0, 0}));
}

TEST(FakeCommunicator, WrongCallsAreBugsThereToo) {
  TrafficCounts counts;
  FakeCommunicator fake(0, 4, counts);
  comm::Communicator& comm = fake;
  EXPECT_THROW(comm.all_gather({nullptr, 5, DType::f32}, {nullptr, 19, DType::f32}), base::InternalError);
  EXPECT_THROW(comm.reduce_scatter({nullptr, 8, DType::f32}, {nullptr, 2, DType::bf16}, comm::ReduceOp::sum),
               base::InternalError);
  EXPECT_THROW(comm.broadcast({nullptr, 1, DType::f32}, 4), base::InternalError);
  EXPECT_THROW(comm.send({nullptr, 1, DType::f32}, 4, 0), base::InternalError);
}

TEST(FakeCommunicator, SplitsByTheGivenRuleAndCountsIntoTheSameTable) {
  TrafficCounts counts;
  FakeCommunicator world(5, 8, counts, [](int color, int key) {
    EXPECT_EQ(color, 1);
    return FakeCommunicator::Place{key, 4};
  });
  const auto part = world.split(1, 2);
  EXPECT_EQ(part->rank(), 2);
  EXPECT_EQ(part->size(), 4);
  const auto copy = world.duplicate();
  EXPECT_EQ(copy->size(), 8);
  part->barrier().wait();
  copy->barrier().wait();
  EXPECT_EQ(counts[Operation::barrier].calls, 2);
}

TEST(FakeCommunicator, AgreementWorksAndFailsOnItsOwnRank) {
  TrafficCounts counts;
  FakeCommunicator comm(3, 16, counts);
  EXPECT_NO_THROW(comm::agree(comm, [] {}));
  try {
    comm::agree(comm, [] { throw base::OutputError("disk full"); });
    FAIL();
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.failed_rank(), 3);
    EXPECT_TRUE(error.speaks());
  }
}

}  // namespace
}  // namespace ddpm::test
