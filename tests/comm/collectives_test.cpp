#include "comm/collectives.h"

#include <array>
#include <new>
#include <stdexcept>

#include <gmock/gmock.h>

#include "base/file_error.h"
#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

using test::world;

/// The AgreedError that `agree` ends with when rank `failing` throws `error`, as this rank sees it.
template <typename Error>
AgreedError agreed_error(int failing, const Error& error) {
  try {
    agree(world(), [&] {
      if (world().rank() == failing) throw error;
    });
  } catch (const AgreedError& agreed) {
    return agreed;
  }
  throw std::logic_error("all ranks went on, though one had failed");
}

int last() { return world().size() - 1; }

TEST(Agree, GoesOnWhenNobodyFails) {
  int calls = 0;
  agree(world(), [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Agree, OneRanksErrorIsThrownByAllWithItsCodeAndText) {
  const auto error = agreed_error(last(), base::DatasetError("shard {} is damaged", 3));
  EXPECT_EQ(error.code(), base::ExitCode::dataset);
  EXPECT_STREQ(error.what(), "shard 3 is damaged");
  EXPECT_EQ(error.failed_rank(), last());
  EXPECT_EQ(error.speaks(), world().rank() == last());
}

TEST(Agree, TheLowestFailedRankSpeaks) {
  try {
    agree(world(), [] { throw base::OutputError("rank {} has no space", world().rank()); });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_STREQ(error.what(), "rank 0 has no space");
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_EQ(error.failed_rank(), 0);
    EXPECT_EQ(error.speaks(), world().rank() == 0);
  }
}

TEST(Agree, ExceptionsThatAreNotOursAreBugs) {
  EXPECT_EQ(agreed_error(last(), std::bad_alloc()).code(), base::ExitCode::bug);
  EXPECT_STREQ(agreed_error(last(), std::runtime_error("from elsewhere")).what(), "from elsewhere");
  EXPECT_EQ(agreed_error(last(), 42).code(), base::ExitCode::bug);
}

TEST(Agree, AllKnowOfAFailureThatSaysNothingOfTheFile) {
  EXPECT_TRUE(agreed_error(last(), base::DatasetAccessError("not now")).is_access_failure());
  EXPECT_TRUE(agreed_error(last(), base::AccessError("not now")).is_access_failure());
  EXPECT_FALSE(agreed_error(last(), base::DatasetError("damaged")).is_access_failure());
}

TEST(Agree, LeavesTheCommunicatorUsable) {
  (void)agreed_error(0, base::OutputError("once"));
  EXPECT_EQ(all_reduce(world(), int64_t{1}, ReduceOp::sum), world().size());
}

TEST(AgreeOnRoot, GivesTheRootsTextToAllAndRunsNowhereElse) {
  int calls = 0;
  const auto text = agree_on_root(
      world(),
      [&] {
        ++calls;
        return "seen by " + std::to_string(world().rank());
      },
      last());
  EXPECT_EQ(text, "seen by " + std::to_string(last()));
  EXPECT_EQ(calls, world().rank() == last() ? 1 : 0);
}

TEST(AgreeOnRoot, TheRootsErrorIsThrownByAll) {
  try {
    agree_on_root(world(), []() -> std::string { throw base::ConfigError("bad key"); });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::usage);
    EXPECT_STREQ(error.what(), "bad key");
    EXPECT_EQ(error.speaks(), world().rank() == 0);
  }
}

TEST(Texts, AreBroadcastWhateverTheirLength) {
  const std::string long_text(100000, 'x');
  for (const std::string& text : {std::string(), std::string("a\0b", 3), long_text}) {
    EXPECT_EQ(broadcast(world(), world().rank() == last() ? text : "another text", last()), text);
  }
}

TEST(Texts, AreGatheredInRankOrder) {
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank * 3), static_cast<char>('a' + rank));
  };
  const auto texts = all_gather(world(), text_of(world().rank()));
  ASSERT_EQ(static_cast<int>(texts.size()), world().size());
  for (int rank = 0; rank < world().size(); ++rank) EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank));
}

TEST(Texts, AreGatheredOnTheRootAlone) {
  const auto text_of = [](int rank) {  // of very different lengths, some of none
    return std::string(rank % 2 == 0 ? static_cast<std::size_t>(rank) * 100000 : 3, static_cast<char>('a' + rank));
  };
  for (int root = 0; root < world().size(); ++root) {
    const auto texts = gather(world(), text_of(world().rank()), root);
    ASSERT_EQ(std::ssize(texts), world().rank() == root ? world().size() : 0);
    for (std::size_t rank = 0; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank], text_of(static_cast<int>(rank)));
  }
}

TEST(Texts, AreNotGatheredOfARankThatFailedBefore) {
  const int failing = last();
  const auto attempt = [&] {
    agree(world(), [&] {
      if (world().rank() == failing) throw base::OutputError("no text");
    });
    gather(world(), "text");
  };
  EXPECT_THROW(attempt(), AgreedError);
  EXPECT_EQ(gather(world(), "text").size(), world().rank() == 0 ? static_cast<std::size_t>(world().size()) : 0U);
}

TEST(Numbers, AreReducedInPlace) {
  std::array<double, 2> values = {1.5, static_cast<double>(world().rank())};
  all_reduce(world(), values, ReduceOp::max);
  EXPECT_EQ(values, (std::array<double, 2>{1.5, static_cast<double>(last())}));
  EXPECT_EQ(all_reduce(world(), 0.5, ReduceOp::sum), 0.5 * world().size());
  EXPECT_EQ(all_reduce(world(), int64_t{world().rank()}, ReduceOp::min), 0);
  barrier(world());
}

}  // namespace
}  // namespace ddpm::comm
