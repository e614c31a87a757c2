#include "interop/unet_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::interop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The configuration of the hub's google/ddpm-cifar10-32, written by an early diffusers, with fewer keys than today.
constexpr const char* kCifar = R"({"_class_name": "UNet2DModel", "_diffusers_version": "0.0.4", "act_fn": "silu",
  "attention_head_dim": null, "block_out_channels": [128, 256, 256, 256], "center_input_sample": false,
  "down_block_types": ["DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"], "downsample_padding": 0,
  "flip_sin_to_cos": false, "freq_shift": 1, "in_channels": 3, "layers_per_block": 2, "mid_block_scale_factor": 1,
  "norm_eps": 1e-06, "norm_num_groups": 32, "out_channels": 3, "sample_size": 32,
  "time_embedding_type": "positional", "up_block_types": ["UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"]})";

base::Json cifar() { return base::Json::parse(kCifar); }

std::string problem(const base::Json& json) {
  try {
    unet_from_json(json, "F");
    return {};
  } catch (const base::ConfigError& error) {
    return error.what();
  }
}

TEST(UNetJson, ReadsAnEarlyConfig) {
  const nn::UNet2DConfig unet = unet_from_json(cifar(), "F");
  EXPECT_EQ(unet.attention_head_dim, 0);
  EXPECT_THAT(unet.block_out_channels, ElementsAre(128, 256, 256, 256));
  EXPECT_EQ(unet.freq_shift, 1);
  EXPECT_EQ(unet.norm_eps, 1e-6);
  EXPECT_EQ(unet.mid_block_scale_factor, 1.0);
  EXPECT_THAT(unet.sample_size, ElementsAre(32));
  EXPECT_TRUE(unet.add_attention);  // a missing key: UNet2DModel's default
  EXPECT_EQ(unet.num_class_embeds, std::nullopt);
}

TEST(UNetJson, AnEmptyObjectIsTheDefaultModel) {
  EXPECT_EQ(unet_to_json(unet_from_json(base::Json::object(), "F")), unet_to_json(nn::UNet2DConfig{}));
}

TEST(UNetJson, BlocksOfTheirOwnGroupsNeedNoNumber) {
  base::Json json = {{"norm_num_groups", nullptr},
                     {"time_embedding_dim", 0},
                     {"block_out_channels", {32, 48}},
                     {"down_block_types", {"SkipDownBlock2D", "SkipDownBlock2D"}},
                     {"up_block_types", {"SkipUpBlock2D", "SkipUpBlock2D"}}};
  const nn::UNet2DConfig unet = unet_from_json(json, "F");
  EXPECT_EQ(unet.norm_num_groups, 0);
  EXPECT_EQ(unet.time_embedding_dim, std::nullopt);
  EXPECT_TRUE(unet_to_json(unet).at("norm_num_groups").is_null());
  json["norm_num_groups"] = 0;  // which diffusers would divide by
  EXPECT_THROW(unet_from_json(json, "F"), base::ConfigError);
}

TEST(UNetJson, NullMeansWhatItMeansInDiffusers) {
  const nn::UNet2DConfig unet = unet_from_json({{"mid_block_type", nullptr},
                                                {"attention_head_dim", nullptr},
                                                {"sample_size", nullptr},
                                                {"num_class_embeds", nullptr}},
                                               "F");
  EXPECT_EQ(unet.mid_block_type, "");
  EXPECT_EQ(unet.attention_head_dim, 0);
  EXPECT_TRUE(unet.sample_size.empty());
  const base::OrderedJson json = unet_to_json(unet);
  for (const char* key : {"mid_block_type", "attention_head_dim", "sample_size", "num_class_embeds"}) {
    EXPECT_TRUE(json.at(key).is_null()) << key;
  }
}

TEST(UNetJson, NullSwitchesAreOffAndAShiftThatNothingReadsMayBeNull) {
  const nn::UNet2DConfig unet = unet_from_json({{"center_input_sample", nullptr},
                                                {"flip_sin_to_cos", nullptr},
                                                {"add_attention", nullptr},
                                                {"time_embedding_type", "fourier"},
                                                {"freq_shift", nullptr}},
                                               "F");
  EXPECT_FALSE(unet.center_input_sample);
  EXPECT_FALSE(unet.flip_sin_to_cos);
  EXPECT_FALSE(unet.add_attention);
  EXPECT_THROW(unet_from_json({{"freq_shift", nullptr}}, "F"), base::ConfigError);
}

TEST(UNetJson, ASizeThatTheModelDoesNotTakeIsNone) {
  for (const base::Json& size : {base::Json(30), base::Json({32, 30}), base::Json({8, 8, 8})}) {
    EXPECT_TRUE(unet_from_json({{"sample_size", size}}, "F").sample_size.empty()) << size;
  }
  EXPECT_THAT(unet_from_json({{"sample_size", {32, 64}}}, "F").sample_size, ElementsAre(32, 64));
  EXPECT_THROW(unet_from_json({{"sample_size", "32"}}, "F"), base::ConfigError);
  EXPECT_THROW(unet_from_json({{"sample_size", 0}}, "F"), base::ConfigError);
}

TEST(UNetJson, TakesWhatDiffusersBuildsTheSameModelFrom) {
  const nn::UNet2DConfig unet = unet_from_json({{"act_fn", "SiLU"},
                                                {"downsample_type", nullptr},
                                                {"upsample_type", nullptr},
                                                {"norm_eps", 0},
                                                {"class_embed_type", "projection"},
                                                {"num_class_embeds", 10}},
                                               "F");
  EXPECT_EQ(unet.act_fn, nn::ActivationName::silu);
  EXPECT_EQ(unet.downsample_type, nn::ResamplerName::conv);
  EXPECT_EQ(unet.upsample_type, nn::ResamplerName::conv);
  EXPECT_EQ(unet.norm_eps, 0.0);
  EXPECT_FALSE(nn::is_class_conditional(unet));  // diffusers knows no such embedding, and refuses labels

  const nn::UNet2DConfig timestep = unet_from_json({{"class_embed_type", "timestep"}, {"num_class_embeds", 10}}, "F");
  EXPECT_EQ(timestep.class_embed_type, nn::ClassEmbedding::timestep);
  EXPECT_EQ(timestep.num_class_embeds, std::nullopt);
}

TEST(UNetJson, RefusesHeadsWithoutChannels) {
  EXPECT_THROW(unet_from_json({{"attention_head_dim", 0}}, "F"), base::ConfigError);
}

TEST(UNetJson, ReadsBackWhatItWrites) {
  nn::UNet2DConfig unet = unet_from_json(cifar(), "F");
  unet.sample_size = {32, 64};
  unet.num_class_embeds = 10;
  unet.dropout = 0.1;
  unet.resnet_time_scale_shift = nn::TimeScaleShift::scale_shift;
  const base::OrderedJson json = unet_to_json(unet);
  EXPECT_EQ(unet_to_json(unet_from_json(base::Json::parse(json.dump()), "F")), json);
  EXPECT_EQ(json.at("sample_size"), (base::OrderedJson{32, 64}));
  EXPECT_EQ(json.at("num_class_embeds"), 10);
}

TEST(UNetJson, TakesOlderNamesOfBlocksAndAnyNameOfAMiddle) {
  base::Json json = cifar();
  json["down_block_types"] = {"UNetResDownBlock2D", "UNetResAttnDownBlock2D", "DownBlock2D", "DownBlock2D"};
  json["mid_block_type"] = "UNetMidBlock2DCrossAttn";
  const nn::UNet2DConfig unet = unet_from_json(json, "F");
  EXPECT_EQ(unet.down_block_types,
            (std::vector<std::string>{"DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"}));
  EXPECT_EQ(unet.mid_block_type, "UNetMidBlock2D");
}

TEST(UNetJson, RefusesWithPathKeySeenAndWanted) {
  struct Case {
    std::string key;
    base::Json value;
    std::string reason;
  };
  const std::vector<Case> cases = {{"_class_name", "UNet2DConditionModel", "wanted: UNet2DModel"},
                                   {"layers_per_block", "2", "model.layers_per_block"},
                                   {"layers_per_block", 2.5, "model.layers_per_block"},
                                   {"layers_per_block", true, "model.layers_per_block"},
                                   {"layers_per_block", nullptr, "model.layers_per_block = null"},
                                   {"downsample_type", "fir", "model.downsample_type = \"fir\""},
                                   {"upsample_type", "fir", "one of conv, resnet"},
                                   {"freq_shift", 0.5, "wanted: an integer"},
                                   {"layers_per_block", uint64_t{1} << 63U, "model.layers_per_block"},
                                   {"block_out_channels", {128, "256"}, "model.block_out_channels"},
                                   {"block_out_channels", base::Json::object(), "model.block_out_channels"},
                                   {"block_out_channels", {128, 256}, "model.down_block_types"},
                                   {"down_block_types", {"CrossAttnDownBlock2D"}, "CrossAttnDownBlock2D"},
                                   {"dropout", 1.0, "model.dropout"},
                                   {"layer_per_block", 2, "unknown key 'layer_per_block'"},
                                   {"cross_attention_dim", 768, "unknown key 'cross_attention_dim'"}};
  for (const auto& [key, value, reason] : cases) {
    base::Json json = cifar();
    json[key] = value;
    EXPECT_THAT(problem(json), testing::AllOf(HasSubstr(reason), HasSubstr("F"))) << key << " = " << value;
  }
  EXPECT_THAT(problem(base::Json::array()), HasSubstr("not a JSON object"));
}

TEST(UNetJson, IgnoresPrivateKeysAndUnknownOnesThatAreNull) {
  base::Json json = cifar();
  json["_name_or_path"] = "somewhere";
  json["addition_embed_type"] = nullptr;
  EXPECT_EQ(problem(json), "");
}

}  // namespace
}  // namespace ddpm::interop
