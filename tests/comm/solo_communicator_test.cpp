#include "comm/solo_communicator.h"

#include <array>

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/collectives.h"

namespace ddpm::comm {
namespace {

TEST(SoloCommunicator, IsRank0Of1) {
  SoloCommunicator solo;
  EXPECT_EQ(solo.rank(), 0);
  EXPECT_EQ(solo.size(), 1);
  EXPECT_EQ(solo.split(3, 7)->size(), 1);
  EXPECT_EQ(solo.duplicate()->rank(), 0);
  EXPECT_EQ(solo.alone()->size(), 1);
}

TEST(SoloCommunicator, CollectivesGiveWhatTheOnlyRankPutsIn) {
  SoloCommunicator solo;
  barrier(solo);
  EXPECT_EQ(all_reduce(solo, 2.5, ReduceOp::sum), 2.5);
  EXPECT_EQ(all_gather(solo, "own"), std::vector<std::string>{"own"});
  EXPECT_EQ(all_gather(solo, ""), std::vector<std::string>{""});
  EXPECT_EQ(broadcast(solo, "own"), "own");
  const std::array<float, 3> in{1.0F, 2.0F, 3.0F};
  std::array<float, 3> out{};
  solo.reduce_scatter({in.data(), 3, base::DType::f32}, {out.data(), 3, base::DType::f32}, ReduceOp::sum).wait();
  EXPECT_EQ(out, in);
}

TEST(SoloCommunicator, FailuresAreItsOwn) {
  SoloCommunicator solo;
  try {
    agree(solo, [] { throw base::OutputError("a full disk"); });
    ADD_FAILURE() << "accepted";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_TRUE(error.speaks());
    EXPECT_STREQ(error.what(), "a full disk");
  }
  EXPECT_NO_THROW(expect_same(solo, "command", "train"));
}

TEST(SoloCommunicator, MessagesAreABug) {
  SoloCommunicator solo;
  std::array<float, 1> value{};
  EXPECT_THROW(solo.send({value.data(), 1, base::DType::f32}, 0, 1), base::InternalError);
  EXPECT_THROW(solo.receive({value.data(), 1, base::DType::f32}, 0, 1), base::InternalError);
}

}  // namespace
}  // namespace ddpm::comm
