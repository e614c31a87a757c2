// UNet2DConfig: diffusers' keys and defaults, and the refusal of what cannot be built.
#include "nn/config.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/resolve.h"
#include "nn/golden_case.h"
#include "nn/validate.h"

namespace ddpm::nn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string as_toml(UNet2DConfig c) {
  config::Schema schema;
  config::Section section = schema.section("model", "", config::Identity::fixed);
  describe(section, c);
  return config::to_toml(schema, false);
}

TEST(UNet2DConfig, HasTheKeysAndDefaultsOfDiffusers) {
  // Every key of a diffusers config.json is assigned here; only the ones named below differ from UNet2DModel's own.
  const base::Json theirs = read_golden(DDPM_TEST_DATA "/golden/defaults.safetensors").config;
  UNet2DConfig ours;
  ours.block_out_channels = {16, 16, 24, 32};
  ours.norm_num_groups = 8;
  ours.sample_size = {16};
  EXPECT_EQ(as_toml(ours), as_toml(config_from_json(theirs)));

  config::Schema schema;
  config::Section section = schema.section("model", "", config::Identity::fixed);
  describe(section, ours);
  const std::set<std::string> own = {"num_parameters", "padding", "dimensions"};
  for (const config::Entry& entry : schema.entries()) {
    EXPECT_NE(theirs.contains(entry.key), own.contains(entry.key)) << entry.key;
  }
  EXPECT_EQ(schema.entries().size(), theirs.size() + own.size());
}

TEST(UNet2DConfig, AcceptsItsDefaults) { EXPECT_NO_THROW(validate(UNet2DConfig())); }

TEST(UNet2DConfig, ImageSizesAreMultiplesOfTheHalvings) {
  EXPECT_EQ(size_multiple(UNet2DConfig()), 8);
  UNet2DConfig c;
  c.sample_size = {24, 64};
  EXPECT_NO_THROW(validate(c));
}

TEST(UNet2DConfig, AcceptsWhatDiffusersComputesInFiniteNumbers) {
  UNet2DConfig c;
  c.freq_shift = 136;  // the last frequency is 10000^(111 / 24)
  c.mid_block_scale_factor = -1.0;
  EXPECT_NO_THROW(validate(c));
}

struct Refusal {
  std::string name;
  std::function<void(UNet2DConfig&)> change;
  std::string key, seen, wanted;
};

class RefusedUNet2DConfig : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedUNet2DConfig, NamesKeyValueAndWhatIsWanted) {
  UNet2DConfig c;
  GetParam().change(c);
  try {
    validate(c);
    FAIL() << "accepted";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("model." + GetParam().key), HasSubstr(GetParam().seen), HasSubstr(GetParam().wanted)));
  }
}

const std::vector<Refusal> kRefusals = {
    {"levels", [](auto& c) { c.down_block_types.pop_back(); }, "down_block_types", "3 block types", "wanted 4"},
    {"no_levels", [](auto& c) { c.block_out_channels.clear(); }, "block_out_channels", "[]", "at least one"},
    {"down_block", [](auto& c) { c.down_block_types[1] = "CrossAttnDownBlock2D"; }, "down_block_types",
     "\"CrossAttnDownBlock2D\"", "one of DownBlock2D, ResnetDownsampleBlock2D"},
    {"pictures_that_no_block_halved", [](auto& c) { c.down_block_types[1] = "SkipDownBlock2D"; }, "down_block_types",
     "block 1 (SkipDownBlock2D)", "skip blocks on all levels above it"},
    {"prediction_that_no_block_doubles", [](auto& c) { c.up_block_types[1] = "SkipUpBlock2D"; }, "up_block_types",
     "does not reach", "skip blocks on all levels"},
    {"pictures_of_four_channels",
     [](auto& c) {
       c.down_block_types[0] = "SkipDownBlock2D";
       c.in_channels = 4;
     },
     "down_block_types", "in_channels = 4", "3 channels"},
    {"k_block_among_others", [](auto& c) { c.up_block_types[1] = "KUpBlock2D"; }, "up_block_types",
     "block 1 (KUpBlock2D)", "would join"},
    {"up_block", [](auto& c) { c.up_block_types[1] = "DownBlock2D"; }, "up_block_types", "\"DownBlock2D\"",
     "one of UpBlock2D, ResnetUpsampleBlock2D"},
    {"mid_block", [](auto& c) { c.mid_block_type = "UNetMidBlock2DCrossAttn"; }, "mid_block_type", "CrossAttn",
     "one of UNetMidBlock2D"},
    {"groups", [](auto& c) { c.block_out_channels[2] = 100; }, "norm_num_groups = 32", "a divisor of the 100 channels",
     "block 2 (AttnDownBlock2D)"},
    {"groups_left_to_blocks", [](auto& c) { c.norm_num_groups = 0; }, "norm_num_groups = 0", "block 0 (DownBlock2D)",
     "a number of groups"},
    {"heads", [](auto& c) { c.attention_head_dim = 449; }, "attention_head_dim", "449", "448 channels"},
    {"mid_heads",
     [](auto& c) {
       c.down_block_types.assign(4, "DownBlock2D");
       c.up_block_types.assign(4, "UpBlock2D");
       c.attention_head_dim = 897;
     },
     "attention_head_dim", "897", "896 channels"},
    {"attention_groups", [](auto& c) { c.attn_norm_num_groups = 5; }, "attn_norm_num_groups", "5", "896"},
    {"learned", [](auto& c) { c.time_embedding_type = TimeEmbedding::learned; }, "num_train_timesteps", "null",
     "learned"},
    {"freq_shift", [](auto& c) { c.freq_shift = 112; }, "freq_shift", "112", "half of the first 224"},
    {"overflowing_freq_shift", [](auto& c) { c.freq_shift = 113; }, "freq_shift", "113", "exceed float32"},
    {"two_class_embeddings",
     [](auto& c) {
       c.class_embed_type = ClassEmbedding::timestep;
       c.num_class_embeds = 10;
     },
     "num_class_embeds", "10", "\"timestep\""},
    {"padding", [](auto& c) { c.downsample_padding = 2; }, "downsample_padding", "2", "at least 0 and at most 1"},
    {"dropout", [](auto& c) { c.dropout = 1.0; }, "dropout", "1", "at least 0 and below 1"},
    {"sample_size",
     [](auto& c) {
       c.sample_size = {32, 36};
     },
     "sample_size", "36", "multiple of 8"},
    {"sample_size_length",
     [](auto& c) {
       c.sample_size = {32, 32, 3};
     },
     "sample_size", "[32, 32, 3]", "height"},
    {"layers", [](auto& c) { c.layers_per_block = 0; }, "layers_per_block", "0", "at least 1 and at most 1024"},
    {"channels", [](auto& c) { c.block_out_channels[0] = 1'000'000'000; }, "block_out_channels", "1000000000",
     "at least 1 and at most 65536"},
    {"classes", [](auto& c) { c.num_class_embeds = int64_t{1} << 40; }, "num_class_embeds", "1099511627776",
     "at least 1 and at most 100000000"},
    {"many_levels",
     [](auto& c) {
       c.block_out_channels.assign(64, 32);
       c.down_block_types.assign(64, "DownBlock2D");
       c.up_block_types.assign(64, "UpBlock2D");
     },
     "block_out_channels", "64 levels", "at most 16"},
    {"scale", [](auto& c) { c.mid_block_scale_factor = 0.0; }, "mid_block_scale_factor", "0", "above 0"},
};

INSTANTIATE_TEST_SUITE_P(Cases, RefusedUNet2DConfig, testing::ValuesIn(kRefusals),
                         [](const auto& refusal) { return refusal.param.name; });

}  // namespace
}  // namespace ddpm::nn::test
