// One rank, and what a power loss takes with it.
#include "checkpoint/crash_fixture.h"

namespace ddpm::checkpoint {
namespace {

class PowerLoss : public CrashTest, public testing::WithParamInterface<Loss> {};

TEST_P(PowerLoss, InANewStep) { run_all(0, GetParam(), 10, 20, 20); }

TEST_P(PowerLoss, InAStepThatIsSavedAgain) { run_all(0, GetParam(), 20, 20, 21); }

TEST_P(PowerLoss, AfterCheckpointsAreSetAside) {
  for (const int64_t step : {10, 20}) save_step(safe_, world(), step);
  // The run was resumed from a checkpoint of step 15, or of step 5, outside of its folder.
  for (const int64_t resumed : {15, 5}) {
    CrashFileSystem disk(kSurelyEnoughCalls);
    CheckpointStore(disk, world(), run_, logger_).set_aside_newer(resumed);
    disk.lose(GetParam());
    const auto found = safe_.find();
    ASSERT_EQ(found.has_value(), resumed == 15);
    EXPECT_EQ(found ? found->manifest.step : 10, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, PowerLoss, testing::Values(Loss::nothing, Loss::data, Loss::data_and_names));

}  // namespace
}  // namespace ddpm::checkpoint
