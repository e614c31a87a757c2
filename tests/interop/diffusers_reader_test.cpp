#include "interop/diffusers_reader.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "interop/tiny_model.h"
#include "interop/unet_json.h"

namespace ddpm::interop {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DiffusersReader : public testing::Test {
 protected:
  DiffusersReader() { tiny_.write(model_); }

  [[nodiscard]] base::Path weights() const { return model_ / "unet" / "diffusion_pytorch_model.safetensors"; }
  /// The error line of reading the weights, "" for none.
  [[nodiscard]] std::string problem(const ExpectedShapes& expected) const {
    try {
      const UNetWeights opened(model_, expected);
      return {};
    } catch (const base::OutputError& error) {
      return error.what();
    }
  }
  void store(const std::vector<checkpoint::SafetensorsTensor>& tensors) const {
    std::filesystem::remove(weights());
    const auto file = base::posix_file_system()->create_exclusive(weights());
    checkpoint::write_safetensors(*file, tensors);
    file->close();
  }

  test::TemporaryFolder folder_;
  base::Path model_ = folder_.path() / "model";
  TinyModel tiny_{tiny_config()};
};

TEST_F(DiffusersReader, TakesAPipelineFolderItsUnetOrTheConfigFile) {
  const base::OrderedJson wanted = unet_to_json(tiny_config());
  EXPECT_EQ(unet_to_json(read_unet_config(model_)), wanted);
  EXPECT_EQ(unet_to_json(read_unet_config(model_ / "unet")), wanted);
  EXPECT_EQ(unet_to_json(read_unet_config(model_ / "unet" / "config.json")), wanted);
  EXPECT_EQ(unet_to_json(read_model_config(model_ / "unet")), wanted);
  EXPECT_TRUE(is_model_folder(model_));
  EXPECT_TRUE(is_model_folder(model_ / "unet"));
  EXPECT_FALSE(is_model_folder(model_ / "scheduler"));
  EXPECT_FALSE(is_model_folder(folder_.path() / "absent"));
}

TEST_F(DiffusersReader, ReadsWeightsSchedulerAndNormalizationFromEither) {
  for (const base::Path& folder : {model_, model_ / "unet", model_ / "unet" / "", model_ / "unet" / "."}) {
    const UNetWeights weights(folder, tiny_.shapes());
    for (const auto& [name, value] : tiny_.weights()) EXPECT_TRUE(at::equal(weights.read(name), value)) << name;
    EXPECT_EQ(read_scheduler(folder).value().class_name, "DDPMScheduler");
    EXPECT_EQ(read_scheduler(folder).value().json.at("beta_end"), 0.02);
    EXPECT_EQ(read_normalization(folder).value().at("dtype"), "uint8");
  }
}

TEST_F(DiffusersReader, TakesTheNumbersOfASchedulerThatPythonWritesByName) {
  const base::Path file = model_ / "scheduler" / "scheduler_config.json";
  const auto read = [&](const std::string& text) {
    test::write_text(file, text);
    return read_scheduler(model_).value().json;
  };
  EXPECT_EQ(read(R"({"a": -Infinity, "b":[Infinity,NaN], "Infinity": "NaN, \\\" -Infinity"})"),
            base::Json::parse(R"({"a": "-Infinity", "b": ["Infinity", "NaN"], "Infinity": "NaN, \\\" -Infinity"})"));
  for (const char* wrong : {R"({"a": -Infinit})", R"({"a": Infinity1})", R"({"a": --Infinity})", R"({"a": "NaN)"}) {
    EXPECT_THROW(read(wrong), base::OutputError) << wrong;
  }
}

TEST_F(DiffusersReader, ABareUnetHasNoSchedulerAndNoNormalization) {
  const base::Path bare = folder_.path() / "bare";
  std::filesystem::rename(model_ / "unet", bare);
  EXPECT_FALSE(read_scheduler(bare));
  EXPECT_FALSE(read_normalization(bare));
  EXPECT_NO_THROW(UNetWeights(bare, tiny_.shapes()));
}

TEST_F(DiffusersReader, AFolderOfModelAndSchedulerTogetherHasBoth) {
  const base::Path flat = folder_.path() / "flat";  // as google/ddpm-cifar10-32 on the hub
  std::filesystem::rename(model_ / "unet", flat);
  std::filesystem::rename(model_ / "scheduler" / "scheduler_config.json", flat / "scheduler_config.json");
  EXPECT_EQ(read_scheduler(flat).value().class_name, "DDPMScheduler");
  EXPECT_NO_THROW(UNetWeights(flat, tiny_.shapes()));
}

TEST_F(DiffusersReader, SuchAFolderMayBeCalledUnet) {
  std::filesystem::rename(model_ / "scheduler" / "scheduler_config.json", model_ / "unet" / "scheduler_config.json");
  EXPECT_EQ(read_scheduler(model_ / "unet").value().class_name, "DDPMScheduler");
}

TEST_F(DiffusersReader, AnIndexCountsBeforeAFileOfAllWeights) {
  base::Json map;
  for (const auto& [name, value] : tiny_.weights()) map[name] = "part.safetensors";
  std::filesystem::rename(weights(), model_ / "unet" / "part.safetensors");
  const std::string index = base::Json{{"weight_map", map}}.dump();
  const std::vector<float> one = {1.0F};
  store({{"stale", base::DType::f32, {1}, std::as_bytes(std::span(one))}});
  test::write_text(model_ / "unet" / "diffusion_pytorch_model.safetensors.index.json", index);
  EXPECT_EQ(problem(tiny_.shapes()), "");
  std::filesystem::remove(weights());
  std::filesystem::remove(model_ / "unet" / "diffusion_pytorch_model.safetensors.index.json");
  // This is how releases of diffusers named the index of a variant one after the other.
  for (const char* ending : {"fp16.index.json", "index.fp16.json"}) {
    const base::Path file = model_ / "unet" / fmt::format("diffusion_pytorch_model.safetensors.{}", ending);
    test::write_text(file, index);
    EXPECT_EQ(problem(tiny_.shapes()), "") << ending;
    std::filesystem::remove(file);
  }
}

TEST_F(DiffusersReader, ANameOfTheHubSaysHowToGetTheModel) {
  const auto refusal = [](const char* name) {
    try {
      read_model_config(name);
    } catch (const base::OutputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("google/ddpm-cifar10-32"),
              testing::HasSubstr("hf download google/ddpm-cifar10-32 --local-dir google/ddpm-cifar10-32"));
  for (const char* path : {"/google/ddpm", "./google", "absent", "google/", "a/b/c", "a b/c", "../ddpm"}) {
    EXPECT_THAT(refusal(path), testing::Not(testing::HasSubstr("hf download"))) << path;
    EXPECT_THAT(refusal(path), testing::HasSubstr("config.json")) << path;
  }
}

TEST_F(DiffusersReader, AConfigFaultIsOneOfConfigurationOrOfTheFolderAsTheCallerAsks) {
  EXPECT_THROW(read_unet_config(folder_.path() / "absent"), base::ConfigError);
  EXPECT_THROW(read_model_config(folder_.path() / "absent"), base::OutputError);
  test::write_text(model_ / "unet" / "config.json", R"({"act_fn": 3})");
  EXPECT_THROW(read_unet_config(model_), base::ConfigError);
  EXPECT_THROW(read_model_config(model_), base::OutputError);
  test::write_text(model_ / "unet" / "config.json", R"({"act_fn": )");
  EXPECT_THROW(read_unet_config(model_), base::ConfigError);
  EXPECT_THROW(read_model_config(model_), base::OutputError);
}

TEST_F(DiffusersReader, ListsWhatIsMissingUnexpectedAndMisshapen) {
  ExpectedShapes expected = tiny_.shapes();
  expected["extra.a"] = {1};
  expected.erase("conv_in.bias");
  expected["conv_out.bias"] = {4};
  EXPECT_THAT(problem(expected), AllOf(HasSubstr("missing: extra.a"), HasSubstr("unexpected: conv_in.bias"),
                                       HasSubstr("other shapes: conv_out.bias is [3], wanted [4]")));
  for (const char* name : {"extra.b", "extra.c", "extra.d", "extra.e"}) expected[name] = {1};
  EXPECT_THAT(problem(expected), HasSubstr("missing: extra.a, extra.b, extra.c and 2 more"));
}

TEST_F(DiffusersReader, SaysWhatToDoAboutShardedAndPickledWeights) {
  std::filesystem::remove(weights());
  EXPECT_THAT(problem({}), HasSubstr("has no diffusion_pytorch_model.safetensors"));
  for (const char* variant : {"diffusion_pytorch_model.fp16.bin", "diffusion_pytorch_model.bin.index.fp16.json"}) {
    test::write_text(model_ / "unet" / variant, "pickle");
    EXPECT_THAT(problem({}), HasSubstr("variant='fp16').save_pretrained(")) << variant;
    std::filesystem::remove(model_ / "unet" / variant);
  }
  test::write_text(model_ / "unet" / "diffusion_pytorch_model.bin", "pickle");
  EXPECT_THAT(problem({}), HasSubstr("unet').save_pretrained("));
  test::write_text(model_ / "unet" / "diffusion_pytorch_model.safetensors.index.json", "{}");
  EXPECT_THAT(problem({}), HasSubstr("weight_map"));
}

TEST_F(DiffusersReader, KnowsTheEarlierNamesOfAttentionWeights) {
  const std::vector<float> one = {1.0F};
  std::vector<checkpoint::SafetensorsTensor> tensors;
  const std::string block = "mid_block.attentions.0.";
  for (const char* name : {"query.weight", "key.weight", "value.bias", "proj_attn.weight"}) {
    tensors.push_back({block + name, base::DType::f32, {1}, std::as_bytes(std::span(one))});
  }
  store(tensors);
  const ExpectedShapes today = {{block + "to_q.weight", {1}},
                                {block + "to_k.weight", {1}},
                                {block + "to_v.bias", {1}},
                                {block + "to_out.0.weight", {1}}};
  EXPECT_EQ(problem(today), "");
  tensors.push_back({block + "to_q.weight", base::DType::f32, {1}, std::as_bytes(std::span(one))});
  store(tensors);
  EXPECT_THAT(problem(today), HasSubstr("twice"));
}

TEST_F(DiffusersReader, RefusesWeightsThatAreNotFloating) {
  const std::vector<int64_t> one = {1};
  store({{"w", base::DType::i64, {1}, std::as_bytes(std::span(one))}});
  EXPECT_THAT(problem({{"w", {1}}}), HasSubstr("'w' is I64"));
}

}  // namespace
}  // namespace ddpm::interop
