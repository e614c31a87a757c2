#include <cstdio>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "support/mpi_test.h"

namespace ddpm::test {
namespace {

comm::MpiSession* the_session = nullptr;

/// Names the rank of each failure, and ends all ranks after a failed test: others may be left inside a collective.
class RankFailures : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    fmt::print(stderr, "[rank {}] {}:{}: {}\n", session().rank(),
               result.file_name() == nullptr ? "?" : result.file_name(), result.line_number(), result.message());
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    if (!info.result()->Failed()) return;
    fmt::print(stderr, "[rank {}] failed: {}.{}\n", session().rank(), info.test_suite_name(), info.name());
    std::fflush(nullptr);
    if (session().size() > 1) session().abort(1);
  }
};

int run_tests(int argc, char** argv) {
  comm::MpiSession session(argc, argv);
  the_session = &session;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (session.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankFailures);
  const int failed = RUN_ALL_TESTS();
  const auto failed_anywhere = comm::all_reduce(session.world(), int64_t{failed != 0}, comm::ReduceOp::max);
  session.finalize();
  return failed_anywhere == 0 ? 0 : 1;
}

}  // namespace

comm::MpiSession& session() { return *the_session; }

}  // namespace ddpm::test

int main(int argc, char** argv) {
  try {
    return ddpm::test::run_tests(argc, argv);
  } catch (const ddpm::base::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
