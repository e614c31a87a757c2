// Every collective, for all dtypes and odd counts, against results computed serially; whole and in pieces.
#include "comm/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/mpi_calls.h"
#include "comm/mpi_library.h"
#include "comm/typed_values.h"
#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

using base::DType;
using test::kAllDTypes;
using test::mpi_calls;
using test::TypedValues;
using test::value_of;
using test::values_of;
using test::world;

constexpr std::array<int64_t, 6> kCounts = {0, 1, 2, 7, 64, 101};

/// How a communicator cuts its buffers.
struct Limits {
  int64_t piece = MpiCommunicator::kPieceElements;
  RingLimits ring = {};
};
constexpr Limits kPiecesOf3{.piece = 3, .ring = {}};
constexpr Limits kAlwaysRings{.ring = {.least_part_bytes = 0, .message_bytes = 16}};

/// The world's ranks.
MpiCommunicator copy_of_world(const Limits& limits) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(mpi_handle(world()), &copy), "MPI_Comm_dup");
  return MpiCommunicator(copy, limits.piece, limits.ring);
}

/// op over all ranks of element i.
int reduced(ReduceOp op, int ranks, int64_t i) {
  int result = value_of(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int value = value_of(rank, i);
    result = op == ReduceOp::sum   ? result + value
             : op == ReduceOp::min ? std::min(result, value)
                                   : std::max(result, value);
  }
  return result;
}

std::vector<int> reduced(ReduceOp op, int ranks, int64_t first, int64_t count) {
  std::vector<int> values;
  for (int64_t i = first; i < first + count; ++i) values.push_back(reduced(op, ranks, i));
  return values;
}

class Collective : public testing::TestWithParam<Limits> {
 protected:
  /// Calls check(communicator, dtype, count) for all dtypes and counts.
  template <typename Check>
  static void for_all(Check check) {
    auto copy = copy_of_world(GetParam());
    Communicator& comm = copy;
    for (const DType dtype : kAllDTypes) {
      for (const int64_t count : kCounts) {
        SCOPED_TRACE(testing::Message() << base::safetensors_name(dtype) << " x " << count);
        check(comm, dtype, count);
      }
    }
  }
};

TEST_P(Collective, AllReduceEqualsTheSerialResult) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    for_all([&](Communicator& comm, DType dtype, int64_t count) {
      TypedValues values(dtype, values_of(comm.rank(), count));
      comm.all_reduce(values.buffer(), op).wait();
      EXPECT_EQ(values.values(), reduced(op, comm.size(), 0, count));
    });
  }
}

TEST_P(Collective, ReduceScatterGivesEachRankItsPart) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    for_all([&](Communicator& comm, DType dtype, int64_t count) {
      TypedValues in(dtype, values_of(comm.rank(), count * comm.size()));
      TypedValues out(dtype, count);
      comm.reduce_scatter(in.buffer(), out.buffer(), op).wait();
      EXPECT_EQ(out.values(), reduced(op, comm.size(), comm.rank() * count, count));
      EXPECT_EQ(in.values(), values_of(comm.rank(), count * comm.size())) << "the input changed";
    });
  }
}

TEST_P(Collective, ReduceScatterMayReplaceItsOwnPart) {
  for_all([&](Communicator& comm, DType dtype, int64_t count) {
    TypedValues values(dtype, values_of(comm.rank(), count * comm.size()));
    const Buffer part = values.part(comm.rank() * count, count);
    comm.reduce_scatter(values.buffer(), part, ReduceOp::sum).wait();
    const auto all = values.values();
    const auto first = all.begin() + comm.rank() * count;
    EXPECT_EQ(std::vector<int>(first, first + count), reduced(ReduceOp::sum, comm.size(), comm.rank() * count, count));
  });
}

std::vector<int> gathered(int ranks, int64_t count) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto part = values_of(rank, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST_P(Collective, AllGatherIsInRankOrder) {
  for_all([&](Communicator& comm, DType dtype, int64_t count) {
    TypedValues in(dtype, values_of(comm.rank(), count));
    TypedValues out(dtype, count * comm.size());
    comm.all_gather(in.buffer(), out.buffer()).wait();
    EXPECT_EQ(out.values(), gathered(comm.size(), count));
  });
}

TEST_P(Collective, AllGatherMayStartFromItsOwnPart) {
  for_all([&](Communicator& comm, DType dtype, int64_t count) {
    std::vector<int> values(static_cast<std::size_t>(count * comm.size()), 10);
    std::ranges::copy(values_of(comm.rank(), count), values.begin() + comm.rank() * count);
    TypedValues all(dtype, values);
    comm.all_gather(all.part(comm.rank() * count, count), all.buffer()).wait();
    EXPECT_EQ(all.values(), gathered(comm.size(), count));
  });
}

TEST_P(Collective, BroadcastComesFromTheRoot) {
  for_all([&](Communicator& comm, DType dtype, int64_t count) {
    for (int root = 0; root < comm.size(); ++root) {
      TypedValues values(dtype, values_of(comm.rank(), count));
      comm.broadcast(values.buffer(), root).wait();
      EXPECT_EQ(values.values(), values_of(root, count));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Limits, Collective, testing::Values(Limits{}, kPiecesOf3, kAlwaysRings));

TEST(Rings, TakeTheirTurnsOnOneCommunicator) {
  auto copy = copy_of_world(kAlwaysRings);
  std::vector<TypedValues> values;
  std::vector<Work> works;
  for (const int64_t count : {40, 3, 500}) values.emplace_back(DType::f32, values_of(world().rank(), count));
  for (auto& each : values) works.push_back(copy.all_reduce(each.buffer(), ReduceOp::sum));
  // Ranks look at their operations in different orders, as threads of different speed would.
  for (std::size_t done = 0; done < works.size();) {
    done = 0;
    for (std::size_t i = 0; i < works.size(); ++i) {
      const std::size_t looked_at = world().rank() % 2 == 0 ? i : works.size() - 1 - i;
      if (works[looked_at].test()) ++done;
    }
  }
  for (auto& each : values) {
    EXPECT_EQ(each.values(), reduced(ReduceOp::sum, world().size(), 0, std::ssize(each.values())));
  }
}

TEST(Rings, SendNoMoreThanTheyMust) {
  const int ranks = world().size();
  if (ranks == 1) return;  // there is nothing to send
  auto copy = copy_of_world({.ring = {.least_part_bytes = 0, .message_bytes = 32}});
  TypedValues values(DType::f32, values_of(world().rank(), int64_t{16} * ranks));  // parts of two messages
  mpi_calls() = {};
  copy.all_reduce(values.buffer(), ReduceOp::sum).wait();
  EXPECT_EQ(mpi_calls().send, 2 * 2 * (ranks - 1));
  EXPECT_EQ(mpi_calls().receive, 2 * 2 * (ranks - 1));
  EXPECT_EQ(mpi_calls().all_reduce, 0);

  TypedValues own(DType::f32, values_of(world().rank(), 16));
  mpi_calls() = {};
  copy.all_gather(own.buffer(), values.buffer()).wait();
  EXPECT_EQ(mpi_calls().send, 2 * (ranks - 1));
  EXPECT_EQ(mpi_calls().receive, 2 * (ranks - 1));
  EXPECT_EQ(mpi_calls().all_gather, 0);
}

TEST(Rings, AreForLargeBuffers) {
  if (world().size() == 1) return;
  const int64_t least = RingLimits{}.least_part_bytes / 4 * world().size();
  for (const int64_t count : {least - 1, least}) {
    TypedValues values(DType::f32, values_of(world().rank(), count));
    mpi_calls() = {};
    world().all_reduce(values.buffer(), ReduceOp::sum).wait();
    EXPECT_EQ(mpi_calls().all_reduce, count < least ? 1 : 0);
  }
}

TEST(Pieces, AreAsManyMpiCallsAsTheSizeNeeds) {
  auto pieces = copy_of_world(kPiecesOf3);
  Communicator& comm = pieces;
  const int ranks = comm.size();
  mpi_calls() = {};
  TypedValues values(DType::f32, values_of(0, 10));
  TypedValues all(DType::f32, values_of(0, 10 * ranks));
  comm.all_reduce(values.buffer(), ReduceOp::sum).wait();
  comm.reduce_scatter(all.buffer(), values.buffer(), ReduceOp::sum).wait();
  comm.all_gather(values.buffer(), all.buffer()).wait();
  comm.broadcast(values.buffer(), 0).wait();
  EXPECT_EQ(mpi_calls().all_reduce, 4);
  EXPECT_EQ(mpi_calls().reduce, 4 * ranks);
  EXPECT_EQ(mpi_calls().reduce_scatter, 0);
  EXPECT_EQ(mpi_calls().all_gather, 4);
  EXPECT_EQ(mpi_calls().broadcast, 4);
}

TEST(Pieces, SmallBuffersTakeOneMpiCall) {
  mpi_calls() = {};
  TypedValues values(DType::f32, values_of(0, 10));
  TypedValues all(DType::f32, values_of(0, 10 * world().size()));
  world().all_reduce(values.buffer(), ReduceOp::sum).wait();
  world().reduce_scatter(all.buffer(), values.buffer(), ReduceOp::sum).wait();
  EXPECT_EQ(mpi_calls().all_reduce, 1);
  EXPECT_EQ(mpi_calls().reduce_scatter, 1);
  EXPECT_EQ(mpi_calls().reduce, 0);
}

TEST(Collective, UnequalSizesAreABug) {
  TypedValues values(DType::f32, 5);
  TypedValues all(DType::f32, 5 * world().size() + 1);
  EXPECT_THROW(world().all_gather(values.buffer(), all.buffer()), base::InternalError);
  EXPECT_THROW(world().reduce_scatter(all.buffer(), values.buffer(), ReduceOp::sum), base::InternalError);
}

TEST(Collective, SeveralMayBeInFlightAndAreFoundDoneByTesting) {
  std::vector<TypedValues> values;
  std::vector<Work> works;
  for (int64_t count = 1; count <= 8; ++count) values.emplace_back(DType::bf16, values_of(world().rank(), count));
  for (auto& each : values) works.push_back(world().all_reduce(each.buffer(), ReduceOp::sum));
  for (auto& work : works) {
    while (!work.test()) std::this_thread::yield();
  }
  for (auto& each : values) {
    EXPECT_EQ(each.values(), reduced(ReduceOp::sum, world().size(), 0, std::ssize(each.values())));
  }
}

TEST(Split, RanksOfOneColorAreOrderedByKey) {
  const int rank = world().rank();
  const auto part = world().split(rank % 2, -rank);
  const int size = (world().size() + 1 - rank % 2) / 2;
  EXPECT_EQ(part->size(), size);
  EXPECT_EQ(part->rank(), size - 1 - rank / 2);

  int64_t expected = 0;
  for (int other = rank % 2; other < world().size(); other += 2) expected += other;
  EXPECT_EQ(all_reduce(*part, int64_t{rank}, ReduceOp::sum), expected);
}

TEST(Duplicate, EachThreadHasTrafficOfItsOwn) {
  constexpr int kThreads = 3;
  constexpr int64_t kRounds = 50;
  std::vector<std::unique_ptr<Communicator>> copies;
  for (int i = 0; i < kThreads; ++i) copies.push_back(world().duplicate());
  std::vector<int64_t> wrong(kThreads, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&copies, &wrong, i] {
        Communicator& comm = *copies[i];
        const auto ranks = int64_t{comm.size()};
        for (int64_t round = 0; round < kRounds; ++round) {
          const int64_t mine = static_cast<int64_t>(i) * 1000 + round + comm.rank();
          const int64_t sum = ranks * (static_cast<int64_t>(i) * 1000 + round) + ranks * (ranks - 1) / 2;
          wrong[i] += static_cast<int64_t>(all_reduce(comm, mine, ReduceOp::sum) != sum);
        }
      });
    }
  }
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(MpiErrors, CarryOperationRankAndMpisText) {
  mpi_calls().fail_next_all_reduce = MPI_ERR_COUNT;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  ASSERT_EQ(MPI_Error_string(MPI_ERR_COUNT, text.data(), &length), MPI_SUCCESS);
  ASSERT_GT(length, 0);
  try {
    all_reduce(world(), 1.0, ReduceOp::sum);
    FAIL() << "the failure was dropped";
  } catch (const base::CommunicationError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("MPI_Iallreduce failed on rank "),
                                             testing::HasSubstr(std::to_string(world().rank()) + ": " + text.data())));
  }
}

TEST(MpiErrors, AreReturnedByMpiRatherThanEndTheProcess) {
  double value = 0;
  EXPECT_THROW(world().broadcast({&value, 1, DType::f64}, world().size()), base::CommunicationError);
  double other = 0;
  EXPECT_THROW(world().send({&other, 1, DType::f64}, world().size(), 0), base::CommunicationError);
}

TEST(MpiSession, TellsNetworksOfForksBeforeMpiStarts) {
  const char* set_by_user = std::getenv("SET_BY_THE_TEST");
  for (const char* variable : {"RDMAV_FORK_SAFE", "CXI_FORK_SAFE", "CXI_FORK_SAFE_HP"}) {
    EXPECT_EQ(test::environment_at_start()[variable], set_by_user == nullptr ? "1" : set_by_user) << variable;
  }
}

TEST(MpiSession, TellsMpichBeforeItStartsThatItGetsTheHostsMemoryAlone) {
  constexpr const char* kVariable = "MPICH_GPU_SUPPORT_ENABLED";
  const bool set_by_user = std::getenv("SET_BY_THE_TEST") != nullptr;
  EXPECT_EQ(test::environment_at_start().contains(kVariable), set_by_user);
  if (!set_by_user) return;
  EXPECT_EQ(test::environment_at_start()[kVariable], needs_pmix() ? "1" : "0");
}

TEST(MpiSession, KnowsItsHostAndItsPlaceThere) {
  auto& session = test::session();
  EXPECT_FALSE(session.host_name().empty());
  int local_size = 0;
  int local_rank = 0;
  const auto hosts = all_gather(world(), session.host_name());
  for (int rank = 0; rank < session.size(); ++rank) {
    const bool here = hosts[static_cast<std::size_t>(rank)] == session.host_name();
    local_size += static_cast<int>(here);
    local_rank += static_cast<int>(here && rank < session.rank());
  }
  EXPECT_EQ(session.local_size(), local_size);
  EXPECT_EQ(session.local_rank(), local_rank);
  EXPECT_EQ(session.world().size(), session.size());
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  EXPECT_EQ(level, MPI_THREAD_MULTIPLE);
}

}  // namespace
}  // namespace ddpm::comm
