// Every call of a save that changes the disk fails once, or from then on, on one rank or on all. The save then fails on
// all ranks with exit code 4, or it succeeds; what was acknowledged stays; the next save works.
#include <csignal>
#include <ostream>
#include <tuple>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "checkpoint/faulty_file_system.h"
#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {
namespace {

constexpr int kSurelyEnoughCalls = 300;
constexpr int kAllRanks = -1;

/// Exit code 0, or that of the error on which all ranks agreed.
int save_code(CheckpointStore& store, int64_t step, const Retention& retention) {
  try {
    save_step(store, test::world(), step, retention);
    return 0;
  } catch (const comm::AgreedError& error) {
    return static_cast<int>(error.code());
  }
}

class FaultTest : public StoreTest {
 protected:
  /// Expects one outcome on all ranks: success or exit code 4.
  static void expect_agreed(int code) {
    EXPECT_EQ(comm::all_reduce(world(), int64_t{code}, comm::ReduceOp::min), code);
    EXPECT_EQ(comm::all_reduce(world(), int64_t{code}, comm::ReduceOp::max), code);
    EXPECT_TRUE(code == 0 || code == static_cast<int>(base::ExitCode::output)) << code;
  }
  /// What is found is one of the two steps, `during` when its save was acknowledged, and whole.
  void expect_whole(int64_t before, int64_t during, bool acknowledged) {
    const auto found = store_.find();
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->manifest.step == during || (!acknowledged && found->manifest.step == before))
        << found->manifest.step;
    expect_loads(store_, *found, found->manifest.step);
  }
};

struct Case {
  int64_t before;
  int64_t during;
  Fault fault;
  bool lasting;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << (c.before == c.during ? "overwrite" : "next") << " fault " << static_cast<int>(c.fault)
             << (c.lasting ? " lasting" : " once");
}

class FailTheNth : public FaultTest, public testing::WithParamInterface<Case> {
 protected:
  /// One save with call n of `victim` failing; false when it has fewer calls.
  bool fails_at(int n, int victim) {
    const Case c = GetParam();
    on_disk([&] { std::filesystem::remove_all(checkpoints()); });
    for (const int64_t step : {c.before - 1, c.before}) save_step(store_, world(), step, {.keep_latest = 2});
    const bool struck = victim == kAllRanks || world().rank() == victim;
    FaultyFileSystem disk(struck ? n : 0, c.fault, c.lasting);
    CheckpointStore store(disk, world(), run_, logger_);
    const int code = save_code(store, c.during, {.keep_latest = 1});
    expect_agreed(code);
    const bool failed = comm::all_reduce(world(), int64_t{disk.failed()}, comm::ReduceOp::max) != 0;
    EXPECT_TRUE(failed || code == 0);
    expect_whole(c.before, c.during, code == 0);
    return failed;
  }
};

TEST_P(FailTheNth, IsACleanErrorOrASuccess) {
  const int64_t next = GetParam().during + 1;
  for (int victim = world().size() > 1 ? kAllRanks : 0; victim < world().size(); ++victim) {
    int n = 1;
    for (bool failed = true; failed; ++n) {
      ASSERT_LT(n, kSurelyEnoughCalls);
      SCOPED_TRACE(fmt::format("call {} of rank {}", n, victim));
      failed = fails_at(n, victim);
      save_step(store_, world(), next, {.keep_latest = 1});
      expect_whole(next, next, true);
      on_disk([&] {
        EXPECT_THAT(names(), testing::ElementsAre(step_folder_name(next)));
        EXPECT_THAT(files_->list(run_), testing::ElementsAre("LATEST", "checkpoints"));
      });
      if (HasFailure()) return;
    }
    EXPECT_GT(n, victim <= 0 ? 20 : 5);  // the fault did strike at each stage
  }
}

INSTANTIATE_TEST_SUITE_P(Of, FailTheNth,
                         testing::Values(Case{10, 20, Fault::refused, false}, Case{10, 20, Fault::refused, true},
                                         Case{10, 20, Fault::partial, false}, Case{10, 20, Fault::late, false},
                                         Case{10, 20, Fault::late, true}, Case{10, 20, Fault::silent, false},
                                         Case{10, 20, Fault::silent, true}, Case{20, 20, Fault::refused, false},
                                         Case{20, 20, Fault::refused, true}, Case{20, 20, Fault::late, false}));

/// Lets this process write files of at most `bytes`: the kernel shortens the write that passes the limit.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(FaultTest, AWriteThatTheKernelShortens) {
  const Retention keep_one{.keep_latest = 1};
  save_step(store_, world(), 10, keep_one);
  const auto size = static_cast<int64_t>(files_->file_size(step_folder(10) / shard_name(0, world().size())));
  int refused = 0;
  for (int victim = 0; victim < world().size(); ++victim) {
    for (const int64_t limit : {int64_t{0}, int64_t{5}, int64_t{8}, int64_t{100}, size / 2, size - 200}) {
      SCOPED_TRACE(fmt::format("{} bytes on rank {}", limit, victim));
      int code = 0;
      {
        std::optional<FileSizeLimit> small;
        if (world().rank() == victim) small.emplace(static_cast<rlim_t>(limit));
        code = save_code(store_, 20, keep_one);
      }
      expect_agreed(code);
      expect_whole(10, 20, code == 0);
      refused += code != 0 ? 1 : 0;
      if (code == 0) on_disk([&] { std::filesystem::remove_all(step_folder(20)); });
      if (code == 0) save_step(store_, world(), 10, keep_one);
      on_disk([&] { EXPECT_THAT(names(), testing::ElementsAre(step_folder_name(10))); });
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(refused, 3 * world().size());
}

}  // namespace
}  // namespace ddpm::checkpoint
