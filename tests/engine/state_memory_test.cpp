// A rank holds the model state that ddpm plan says, to the byte, and nothing else once a step is over.
#include "engine/state_memory.h"

#include "support/mpi_test.h"

namespace ddpm::engine::test {
namespace {

TEST(StateMemory, IsWhatThePlanSays) {
  for (const char* precision : {"no", "bf16"}) {
    for (int64_t stage = 0; stage <= 3; ++stage) {
      for (const bool overlap : {true, false}) {
        TrainingCase chosen;
        chosen.mixed_precision = precision;
        chosen.parallel.zero_stage = stage;
        chosen.parallel.overlap = overlap;
        chosen.parallel.bucket_mib = 0.125;
        SCOPED_TRACE(chosen.text());
        const StateBytes bytes = state_bytes(chosen, ddpm::test::world());
        EXPECT_EQ(bytes.counted, bytes.planned);
      }
    }
  }
}

TEST(StateMemory, IsSharedByTheRanksOfAGroupOnly) {
  const int ranks = ddpm::test::world().size();
  if (ranks % 2 != 0) return;  // there are no groups of two
  for (int64_t stage = 1; stage <= 3; ++stage) {
    TrainingCase chosen;
    chosen.parallel.zero_stage = stage;
    chosen.parallel.dp_shard_size = 2;
    SCOPED_TRACE(chosen.text());
    const StateBytes bytes = state_bytes(chosen, ddpm::test::world());
    EXPECT_EQ(bytes.counted, bytes.planned);
  }
}

}  // namespace
}  // namespace ddpm::engine::test
