#include "plan/starter.h"

#include <gtest/gtest.h>

#include "config/resolve.h"

namespace ddpm::plan {
namespace {

using Channels = std::vector<int64_t>;

TEST(Starter, TheModelHalvesTheImagesAsFarAsTheyGo) {
  EXPECT_EQ(starter_model(StarterSize::medium, {32, 32}).block_out_channels, (Channels{128, 256, 256}));
  EXPECT_EQ(starter_model(StarterSize::small, {16, 16}).block_out_channels, (Channels{32, 64}));
  EXPECT_EQ(starter_model(StarterSize::small, {28, 28}).block_out_channels, (Channels{32, 64, 64}));
  EXPECT_EQ(starter_model(StarterSize::small, {17, 17}).block_out_channels, (Channels{32}));
  EXPECT_EQ(starter_model(StarterSize::medium, {256, 256}).block_out_channels,
            (Channels{128, 128, 256, 256, 512, 512}));
  for (const int64_t side : {8, 17, 24, 28, 48, 64, 96, 100, 128, 512, 1000}) {
    const StarterModel model = starter_model(StarterSize::medium, {side, side});
    EXPECT_EQ(side % (int64_t{1} << (model.block_out_channels.size() - 1)), 0) << side;
    EXPECT_EQ(model.down_block_types.size(), model.block_out_channels.size());
    EXPECT_EQ(model.up_block_types.size(), model.block_out_channels.size());
  }
}

TEST(Starter, AttentionStandsWhereImagesAreSmall) {
  const StarterModel model = starter_model(StarterSize::medium, {64, 64});
  EXPECT_EQ(model.down_block_types,
            (std::vector<std::string>{"DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"}));
  EXPECT_EQ(model.up_block_types,
            (std::vector<std::string>{"AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"}));
}

TEST(Starter, TheBatchDividesByTheRanksAndFitsTheSet) {
  EXPECT_EQ(starter_global_size(1, 50000, 128), 128);
  EXPECT_EQ(starter_global_size(3, 50000, 128), 96);
  EXPECT_EQ(starter_global_size(4, 10, 128), 8);
  EXPECT_EQ(starter_global_size(256, 50000, 128), 256);
}

TEST(Starter, TheFileReadsBackWithWhatWasAsked) {
  Starter starter;
  starter.images = {.path = "a \"set\"", .count = 100, .height = 16, .width = 32, .channels = 1, .classes = 7};
  starter.model = starter_model(StarterSize::small, {16, 32});
  starter.run_directory = "runs/x";
  starter.steps = 100;
  starter.arrangement = {.ranks_per_node = 4,
                         .parallelism = {.zero_stage = 2, .global_size = 64, .micro_size = 8, .dp_shard_size = 4},
                         .mixed_precision = true};
  starter.precision = optim::MixedPrecision::fp16;
  const std::string text = toml_of(starter);
  EXPECT_EQ(config::parse_toml(text, "text").size(), 9U);
  for (const char* line : {"train = \"a \\\"set\\\"\"", "sample_size = [16, 32]", "in_channels = 1",
                           "num_class_embeds = 7", "global_size = 64", "micro_size = 8", "zero_stage = 2",
                           "dp_shard_size = 4", "mixed_precision = \"fp16\"", "here 4 × 8 × 2"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("clip_sample"), std::string::npos) << "8-bit images lie in [-1, 1]";
  starter.images.float32 = true;
  const std::string floats = toml_of(starter);
  EXPECT_EQ(config::parse_toml(floats, "floats").size(), 10U);
  EXPECT_NE(floats.find("[diffusion]\nclip_sample = false"), std::string::npos) << floats;
}

}  // namespace
}  // namespace ddpm::plan
