// One of several ranks dies; the others notice it and do no harm.
#include "checkpoint/crash_fixture.h"

namespace ddpm::checkpoint {
namespace {

TEST_F(CrashTest, OfAnyRankInANewStep) {
  for (int victim = 0; victim < world().size(); ++victim) run_all(victim, Loss::nothing, 10, 20, 20);
}

TEST_F(CrashTest, OfAnyRankInAStepThatIsSavedAgain) {
  for (int victim = 0; victim < world().size(); ++victim) run_all(victim, Loss::nothing, 20, 20, 21);
}

}  // namespace
}  // namespace ddpm::checkpoint
