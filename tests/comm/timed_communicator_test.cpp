#include "comm/timed_communicator.h"

#include <array>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

using test::world;

constexpr double kLate = 0.3;

TEST(TimedCommunicator, CountsWhatItsRankWaitsForAnother) {
  TimedCommunicator timed(world().duplicate());
  world().barrier().wait();
  if (timed.rank() == 1) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
  float value = 1.0F + static_cast<float>(timed.rank());
  timed.all_reduce({&value, 1, base::DType::f32}, ReduceOp::sum).wait();
  EXPECT_EQ(value, 3.0F);
  const double seconds = timed.take_seconds();
  if (timed.rank() == 0) {
    EXPECT_GT(seconds, kLate / 2);
  }
  EXPECT_EQ(timed.take_seconds(), 0.0);
}

TEST(TimedCommunicator, PassesEveryOperationOn) {
  TimedCommunicator timed(world().duplicate());
  const int rank = timed.rank();
  const int other = 1 - rank;
  const auto own = static_cast<float>(rank);
  float from = -1.0F;
  const Outgoing out{.buffer = {&own, 1, base::DType::f32}, .to = other};
  const Incoming in{.buffer = {&from, 1, base::DType::f32}, .from = other};
  timed.exchange({&out, 1}, {&in, 1}).wait();
  EXPECT_EQ(from, static_cast<float>(other));
  from = -1.0F;
  Work received = timed.receive(in.buffer, other, 7);
  timed.send(out.buffer, other, 7).wait();
  received.wait();
  EXPECT_EQ(from, static_cast<float>(other));

  std::array<float, 2> both{};
  timed.all_gather(out.buffer, {both.data(), 2, base::DType::f32}).wait();
  EXPECT_EQ(both, (std::array<float, 2>{0.0F, 1.0F}));
  timed.reduce_scatter({both.data(), 2, base::DType::f32}, {&from, 1, base::DType::f32}, ReduceOp::sum).wait();
  EXPECT_EQ(from, 2.0F * own);
  timed.broadcast({&from, 1, base::DType::f32}, 1).wait();
  EXPECT_EQ(from, 2.0F);
  timed.barrier().wait();
  EXPECT_EQ(timed.duplicate()->size(), 2);
  EXPECT_EQ(timed.split(rank, 0)->size(), 1);
  EXPECT_EQ(timed.alone()->size(), 1);
}

}  // namespace
}  // namespace ddpm::comm
