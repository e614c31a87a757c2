// Point-to-point messages between different ranks. (ddpm sends no message from a rank to itself, and Open MPI does not
// report one that is longer than its buffer.)
#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/mpi_calls.h"
#include "comm/mpi_communicator.h"
#include "comm/typed_values.h"
#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

using base::DType;
using test::kAllDTypes;
using test::mpi_calls;
using test::TypedValues;
using test::values_of;
using test::world;

int next() { return (world().rank() + 1) % world().size(); }
int previous() { return (world().rank() + world().size() - 1) % world().size(); }

TEST(Messages, TravelAroundARing) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t count : {0, 1, 33}) {
      TypedValues out(dtype, values_of(world().rank(), count));
      TypedValues in(dtype, count);
      Work received = world().receive(in.buffer(), previous(), 5);
      world().send(out.buffer(), next(), 5).wait();
      received.wait();
      EXPECT_EQ(in.values(), values_of(previous(), count));
    }
  }
}

TEST(Messages, AreToldApartByTag) {
  TypedValues first(DType::i32, std::vector<int>{1});
  TypedValues second(DType::i32, std::vector<int>{2});
  Work sent_first = world().send(first.buffer(), next(), 10);
  Work sent_second = world().send(second.buffer(), next(), 20);
  TypedValues by_20(DType::i32, 1);
  TypedValues by_10(DType::i32, 1);
  world().receive(by_20.buffer(), previous(), 20).wait();
  world().receive(by_10.buffer(), previous(), 10).wait();
  sent_first.wait();
  sent_second.wait();
  EXPECT_EQ(by_20.values(), std::vector<int>{2});
  EXPECT_EQ(by_10.values(), std::vector<int>{1});
}

TEST(Messages, LargeOnesTravelInPieces) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(mpi_handle(world()), &copy), "MPI_Comm_dup");
  MpiCommunicator pieces(copy, 4);
  Communicator& comm = pieces;
  TypedValues out(DType::f64, values_of(world().rank(), 13));
  TypedValues in(DType::f64, 13);
  mpi_calls() = {};
  Work received = comm.receive(in.buffer(), previous(), 1);
  Work sent = comm.send(out.buffer(), next(), 1);
  received.wait();
  sent.wait();
  EXPECT_EQ(in.values(), values_of(previous(), 13));
  EXPECT_EQ(mpi_calls().send, 4);
  EXPECT_EQ(mpi_calls().receive, 4);
}

TEST(Messages, ExchangeSendsAndReceivesAtOnce) {
  TypedValues mine(DType::f32, values_of(world().rank(), 9));
  TypedValues from_next(DType::f32, 9);
  TypedValues from_previous(DType::f32, 9);
  const std::array<Outgoing, 2> out = {Outgoing{mine.buffer(), next(), 1}, Outgoing{mine.buffer(), previous(), 2}};
  const std::array<Incoming, 2> in = {Incoming{from_previous.buffer(), previous(), 1},
                                      Incoming{from_next.buffer(), next(), 2}};
  Work work = world().exchange(out, in);
  while (!work.test()) {
  }
  EXPECT_EQ(from_next.values(), values_of(next(), 9));
  EXPECT_EQ(from_previous.values(), values_of(previous(), 9));
}

/// What a message of `sent` elements into a buffer of `wanted` ends with.
std::string error_of_message(int64_t sent, int64_t wanted) {
  TypedValues out(DType::f32, sent);
  TypedValues in(DType::f32, wanted);
  Work received = world().receive(in.buffer(), previous(), 3);
  world().send(out.buffer(), next(), 3).wait();
  try {
    received.wait();
    return "no error";
  } catch (const base::CommunicationError& error) {
    return error.what();
  }
}

TEST(Messages, LongerThanTheBufferIsAnError) {
  EXPECT_THAT(error_of_message(4, 2), testing::HasSubstr("MPI_Irecv failed"));
}

TEST(Messages, ShorterThanTheBufferIsAnError) {
  EXPECT_THAT(error_of_message(2, 4), testing::HasSubstr("with tag 3 brought 2 elements; 4 are wanted"));
}

}  // namespace
}  // namespace ddpm::comm
