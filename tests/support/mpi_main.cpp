#include "comm/collectives.h"
#include "support/mpi_test.h"

namespace ddpm::test {
namespace {
comm::MpiSession* the_session = nullptr;
}
comm::MpiSession& session() { return *the_session; }
}  // namespace ddpm::test

int main(int argc, char** argv) {
  ddpm::comm::MpiSession session(argc, argv);
  ddpm::test::the_session = &session;
  testing::InitGoogleTest(&argc, argv);
  if (session.rank() != 0) delete testing::UnitTest::GetInstance()->listeners().Release(
      testing::UnitTest::GetInstance()->listeners().default_result_printer());
  const int failed = RUN_ALL_TESTS();
  const auto anywhere = ddpm::comm::all_reduce(session.world(), int64_t{failed != 0}, ddpm::comm::ReduceOp::max);
  session.finalize();
  return anywhere == 0 ? 0 : 1;
}
