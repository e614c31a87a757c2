// One rank, and what a power loss takes with it.
#include "checkpoint/crash_fixture.h"

namespace ddpm::checkpoint {
namespace {

class PowerLoss : public CrashTest, public testing::WithParamInterface<Loss> {};

TEST_P(PowerLoss, InANewStep) { run_all(0, GetParam(), 10, 20, 20); }

TEST_P(PowerLoss, InAStepThatIsSavedAgain) { run_all(0, GetParam(), 20, 20, 21); }

INSTANTIATE_TEST_SUITE_P(Of, PowerLoss, testing::Values(Loss::nothing, Loss::data, Loss::data_and_names));

}  // namespace
}  // namespace ddpm::checkpoint
