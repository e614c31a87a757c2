#include "plan/make_starter.h"

#include <memory>

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file_system.h"

namespace ddpm::plan {
namespace {

using testing::HasSubstr;

class MakeStarter : public testing::Test {
 protected:
  /// The starter in so much memory of a rank; none where nothing fits.
  std::optional<Starter> with_memory(double gib) {
    wishes_.memory_gib = gib;
    try {
      return make_starter(*files_, set_, wishes_);
    } catch (const base::ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a rank needs"));
      return std::nullopt;
    }
  }
  std::string refusal() {
    try {
      make_starter(*files_, set_, wishes_);
    } catch (const base::ConfigError& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
  StarterSet set_{.path = "shapes", .image = {.height = 64, .width = 64, .channels = 3}, .count = 5000, .classes = 10};
  StarterWishes wishes_{.ranks_per_node = 4, .machine = "a100", .on_host = false, .run_directory = "runs/shapes"};
};

TEST_F(MakeStarter, SharesNothingWhereMemorySuffices) {
  const auto starter = with_memory(64.0);
  ASSERT_TRUE(starter);
  EXPECT_EQ(starter->arrangement.ranks(), 4);
  EXPECT_EQ(starter->arrangement.parallelism.global_size, 128);
  EXPECT_EQ(starter->arrangement.parallelism.micro_size, 32);
  EXPECT_EQ(starter->arrangement.parallelism.zero_stage, 0);
  EXPECT_FALSE(starter->recomputes);
  EXPECT_EQ(starter->model.block_out_channels.front(), 128);
  EXPECT_EQ(starter->images.classes, 10);
  EXPECT_THAT(toml_of(*starter), HasSubstr("directory = \"runs/shapes\""));
}

TEST_F(MakeStarter, GivesUpSpeedForMemoryAndThenRefuses) {
  double fits = 64.0;
  double too_little = 0.1;
  EXPECT_FALSE(with_memory(too_little));
  while (fits - too_little > 0.01) {
    const double between = (fits + too_little) / 2.0;
    (with_memory(between) ? fits : too_little) = between;
  }
  const auto least = with_memory(fits);
  ASSERT_TRUE(least);
  EXPECT_TRUE(least->recomputes);
  EXPECT_EQ(least->arrangement.parallelism.zero_stage, 3);
  EXPECT_EQ(least->arrangement.parallelism.micro_size, 1);
  wishes_.memory_gib = too_little;
  EXPECT_THAT(refusal(), HasSubstr("zero_stage = 3 and activation_checkpointing = \"blocks\""));
  EXPECT_THAT(refusal(), HasSubstr("a smaller model (--model small)"));
  wishes_.size = StarterSize::small;
  EXPECT_EQ(refusal(), "");  // which does with less
}

TEST_F(MakeStarter, IsSmallOnTheHost) {
  wishes_ = {.memory_gib = 64.0, .steps = 7, .run_directory = "runs/shapes"};
  const Starter starter = make_starter(*files_, set_, wishes_);
  EXPECT_EQ(starter.model.block_out_channels.front(), 32);
  EXPECT_EQ(starter.arrangement.parallelism.global_size, 32);
  EXPECT_EQ(starter.steps, 7);
}

TEST_F(MakeStarter, RefusesRanksAndBatchesThatDoNotGoTogether) {
  wishes_.memory_gib = 64.0;
  wishes_.global_size = 6;
  EXPECT_THAT(refusal(), HasSubstr("batch.global_size"));
  wishes_.nodes = int64_t{1} << 20;
  wishes_.ranks_per_node = int64_t{1} << 20;
  EXPECT_THAT(refusal(), HasSubstr("--nodes 1048576 × --gpus-per-node 1048576 are"));
  EXPECT_THROW(refuse_too_many_ranks(wishes_.nodes, wishes_.ranks_per_node), base::ConfigError);
  EXPECT_NO_THROW(refuse_too_many_ranks(100, 8));
}

}  // namespace
}  // namespace ddpm::plan
