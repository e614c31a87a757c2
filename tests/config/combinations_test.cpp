#include "config/combinations.h"

#include <gtest/gtest.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

std::string refusal_of(const Features& features) {
  return refusal([&] { refuse_combinations(features); });
}

TEST(Combinations, DefaultsWork) { EXPECT_EQ(refusal_of(Features{}), "accepted"); }

TEST(Combinations, ReproducibleNeedsPowersOfTwo) {
  const auto with = [](int64_t world, int64_t global, int64_t micro) {
    return refusal_of({.reproducible = true, .world_size = world, .global_size = global, .micro_size = micro});
  };
  EXPECT_EQ(with(1, 16, 16), "accepted");
  EXPECT_EQ(with(4, 96, 6), "accepted");
  EXPECT_EQ(with(3, 96, 6),
            "run.reproducible = true with batch.global_size = 96, batch.micro_size = 6 and 3 ranks: it needs powers of "
            "two, both as the number of ranks and as batch.global_size / batch.micro_size");
  EXPECT_NE(with(4, 96, 8), "accepted");
  EXPECT_NE(with(1, 16, 3), "accepted");
  EXPECT_NE(with(1, 16, 0), "accepted");
  EXPECT_EQ(refusal_of({.reproducible = false, .world_size = 3, .global_size = 96, .micro_size = 8}), "accepted");
}

}  // namespace
}  // namespace ddpm::config
