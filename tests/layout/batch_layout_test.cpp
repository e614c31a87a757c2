#include "layout/batch_layout.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::layout {
namespace {

TEST(BatchLayout, EveryPositionIsTakenOnceAndRanksOwnConsecutiveOnes) {
  for (const auto& [global, micro, ranks] : {std::array<int64_t, 3>{48, 4, 3}, {16, 16, 1}, {32, 1, 4}, {24, 2, 2}}) {
    const BatchLayout layout = BatchLayout::make(global, micro, ranks);
    EXPECT_EQ(layout.accumulation_steps() * micro * ranks, global);
    int64_t next = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (int64_t step = 0; step < layout.accumulation_steps(); ++step) {
        const Range range = layout.positions(rank, step);
        EXPECT_EQ(range, (Range{next, next + micro}));
        next = range.end;
      }
    }
    EXPECT_EQ(next, global);
  }
}

std::string refusal(int64_t global, int64_t micro, int64_t ranks) {
  try {
    BatchLayout::make(global, micro, ranks);
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(BatchLayout, RefusesWithAllTheNumbers) {
  EXPECT_EQ(refusal(100, 8, 3),
            "batch.global_size = 100 does not divide into micro-batches: it must be a positive multiple of "
            "batch.micro_size × "
            "data-parallel ranks = 8 × 3 = 24");
  EXPECT_EQ(refusal(96, 8, 3), "accepted");
}

TEST(BatchLayout, RefusesSizesThatAreNotPositive) {
  EXPECT_NE(refusal(0, 8, 1), "accepted");
  EXPECT_NE(refusal(16, 0, 1), "accepted");
  EXPECT_NE(refusal(16, 8, 0), "accepted");
  EXPECT_NE(refusal(16, -8, -2), "accepted");
  EXPECT_NE(refusal(16, int64_t{1} << 62, 4), "accepted");
}

}  // namespace
}  // namespace ddpm::layout
