#include "checkpoint/manifest.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/sha256.h"

namespace ddpm::checkpoint {
namespace {

using testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.step = 1000;
  manifest.world_size = 2;
  manifest.config_hash = "c0";
  manifest.dataset_hash = "d0";
  manifest.state = {{"images_seen", 64000}, {"loss_scale", 65536.5}, {"kind", "a"}};
  manifest.files = {{"shard-00000-of-00002.safetensors", 100, std::string(64, 'a')},
                    {"shard-00001-of-00002.safetensors", 200, std::string(64, '0')}};
  const Box whole = {{0, 4}, {0, 3}};
  manifest.tensors = {
      {"scalar", base::DType::f64, {}, {{manifest.files[1].name, "scalar", {}, {0, 1}}}},
      {"weight",
       base::DType::f32,
       {4, 3},
       {{manifest.files[0].name, "weight", whole, {0, 7}}, {manifest.files[1].name, "weight", whole, {7, 12}}}}};
  return manifest;
}

std::string problem(const std::string& text) {
  try {
    parse_manifest(text, "M");
    return {};
  } catch (const base::OutputError& error) {
    return error.what();
  }
}

/// The text with one passage replaced and the checksum made right again.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::string body = text.substr(0, text.rfind("\"sha256\""));
  return body + "\"sha256\": \"" + base::sha256_hex(body) + "\"\n}\n";
}

TEST(Manifest, ReadsBackWhatWasWritten) {
  const Manifest manifest = parse_manifest(to_text(example()), "M");
  EXPECT_EQ(to_text(manifest), to_text(example()));
  EXPECT_EQ(manifest.step, 1000);
  EXPECT_EQ(manifest.state.at("images_seen"), 64000);
  ASSERT_NE(manifest.find("weight"), nullptr);
  EXPECT_EQ(manifest.find("weight")->slice(1).flat, (layout::Range{7, 12}));
  EXPECT_EQ(manifest.find("weigh"), nullptr);
}

/// Values of any kind in it, keys apart: what limits count.
std::size_t values_in(const base::Json& json) {
  std::size_t values = 1;
  if (!json.is_structured()) return values;
  for (const base::Json& value : json) values += values_in(value);
  return values;
}

// The ranks of a large run cut each tensor into thousands of slices. The number of values that are read must not end
// before the number of bytes does.
TEST(Manifest, HoldsAsManySlicesAsItMayHaveBytes) {
  for (std::size_t axes = 0; axes <= 5; ++axes) {
    Manifest manifest = example();
    ManifestTensor tensor{"m", base::DType::f32, std::vector<int64_t>(axes, 9), {}};
    for (int i = 0; i < 1000; ++i) {
      tensor.slices.push_back({"shard-00000-of-01024.safetensors", "m", Box(axes, {0, 9}), {0, 1}});
    }
    manifest.tensors = {std::move(tensor)};
    const std::string text = to_text(manifest);
    const double values_per_byte =
        static_cast<double>(values_in(base::Json::parse(text))) / static_cast<double>(text.size());
    EXPECT_GT(static_cast<double>(manifest_limits(kMaxManifestBytes).max_values),
              values_per_byte * static_cast<double>(kMaxManifestBytes))
        << axes << " axes";
  }
  EXPECT_EQ(manifest_limits(1000).max_values, base::JsonLimits{}.max_values) << "small files may hold what others may";
  EXPECT_EQ(manifest_limits(1000).max_bytes, kMaxManifestBytes);
}

TEST(Manifest, EndsWithTheChecksumOfAllBytesBeforeThatField) {
  const std::string text = to_text(example());
  const base::Json json = base::Json::parse(text);
  EXPECT_EQ(json.at("sha256"), base::sha256_hex(text.substr(0, text.rfind("\"sha256\""))));
}

TEST(Manifest, EveryTruncationExtraByteAndFlippedBitIsSeen) {
  const std::string good = to_text(example());
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_NE(problem(good.substr(0, size)), "") << size;
  EXPECT_NE(problem(good + "\n"), "");
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_NE(problem(flipped), "") << "byte " << i;
  }
}

TEST(Manifest, ContradictionsAreRefusedWithTheReason) {
  const std::string shard0 = "shard-00000-of-00002.safetensors";
  struct Case {
    std::string from, to, reason;
  };
  const std::vector<Case> cases = {
      {"\"format\": 1", "\"format\": 2", "format 2"},
      {"\"step\": 1000", "\"step\": -1", "'step' is -1"},
      {"\"step\": 1000", "\"step\": \"1000\"", "'step' is \"1000\""},
      {"\"step\": 1000", "\"step\": 1000, \"step\": 1", "duplicate"},
      {"\"world\": 2,", "", "'world' is missing"},
      {"\"world\": 2,", "\"world\": 0,", "'world' is 0"},
      {"\"world\": 2,", "\"world\": 4294967296,", "'world' is 4294967296"},
      {"\"world\": 2,", "\"world\": 2, \"more\": 0,", "unknown key 'more'"},
      {"\"kind\":\"a\"", "\"kind\":[1]", "state 'kind' is not a scalar"},
      {"\"name\":\"" + shard0, "\"name\":\"../" + shard0, "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\"/etc/passwd", "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\"", "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\"a\\u0000b", "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\".hidden", "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\"..", "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\"" + std::string(230, 'a') + shard0, "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\"MANIFEST.json", "not a plain name"},
      {"\"name\":\"" + shard0, "\"name\":\"shard-00001-of-00002.safetensors", "listed twice"},
      {"\"name\":\"" + shard0, "\"name\":\"other", "not a listed file"},
      {std::string(64, 'a'), std::string(64, 'A'), "wanted 64 hexadecimal digits"},
      {std::string(64, 'a'), std::string(63, 'a'), "wanted 64 hexadecimal digits"},
      {"\"name\":\"scalar\"", "\"name\":\"weight\"", "listed twice or out of order"},
      {"\"name\":\"scalar\"", "\"name\":\"\"", "is not 1 to 1024 printable characters"},
      {"\"name\":\"scalar\"", "\"name\":\"\\u001b[2J\"", "is not 1 to 1024 printable characters"},
      {"\"name\":\"scalar\"", "\"name\":\"" + std::string(1025, 'a') + "\"", "is not 1 to 1024 printable"},
      {"\"entry\":\"scalar\"", "\"entry\":\"\\u0000\"", "is not 1 to 1024 printable characters"},
      {"\"shape\":[],", "\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],", "17 axes, at most 16"},
      {"\"dtype\":\"F32\"", "\"dtype\":\"F31\"", "'dtype' is \"F31\""},
      {"\"shape\":[4,3]", "\"shape\":[4,4]", "cover 12 of its 16"},
      {"\"shape\":[4,3]", "\"shape\":[4]", "a slice has 2 axes"},
      {"\"shape\":[4,3]", "\"shape\":[4611686018427387904,4611686018427387904]", "too large"},
      {"\"flat\":[7,12]", "\"flat\":[8,12]", "cover 11 of its 12"},
      {"\"flat\":[7,12]", "\"flat\":[6,12]", "overlap"},
      {"\"flat\":[7,12]", "\"flat\":[7,13]", "of a box of 12"},
      {"\"flat\":[7,12]", "\"flat\":[12,7]", "empty"},
      {"\"flat\":[7,12]", "\"flat\":[7]", "not [begin, end]"},
      {"\"entry\":\"scalar\"", "\"entry\":\"weight\"", "used twice"},
      {"\"box\":[[0,4],[0,3]]", "\"box\":[[0,5],[0,3]]", "which has size 4"}};
  for (const auto& [from, to, reason] : cases) {
    EXPECT_THAT(problem(edited(to_text(example()), from, to)), HasSubstr(reason)) << from << " -> " << to;
  }
}

TEST(Manifest, OfALaterVersionIsNotTakenForADamagedOne) {
  const auto is_newer = [](const std::string& text) {
    try {
      parse_manifest(text, "M");
      return false;
    } catch (const NewerFormatError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a newer ddpm wrote it"));
      return true;
    } catch (const base::OutputError&) {
      return false;
    }
  };
  const std::string good = to_text(example());
  EXPECT_TRUE(is_newer(edited(good, "\"format\": 1", "\"format\": 2")));
  EXPECT_TRUE(is_newer(edited(edited(good, "\"format\": 1", "\"format\": 2"), "\"world\"", "\"ranks\"")));
  for (const char* key : {"\"step\"", "\"dtype\"", "\"entry\"", "\"size\""}) {
    EXPECT_TRUE(is_newer(edited(good, key, fmt::format("\"more\":0,{}", key)))) << key;
  }
  std::string torn = good;
  torn[torn.find("\"format\": 1") + std::string("\"format\": ").size()] = '2';
  EXPECT_FALSE(is_newer(torn)) << "its checksum does not match";
  EXPECT_FALSE(is_newer(edited(good, "\"world\": 2,", ""))) << "a key that is missing is no newer format";
}

TEST(Manifest, BoxesOfDifferentCutsMustNotOverlap) {
  Manifest manifest = example();
  ManifestTensor& weight = manifest.tensors[1];
  weight.slices[0] = {manifest.files[0].name, "weight", {{0, 2}, {0, 3}}, {0, 6}};
  weight.slices[1] = {manifest.files[1].name, "weight", {{2, 4}, {0, 3}}, {0, 6}};
  EXPECT_EQ(problem(to_text(manifest)), "");
  weight.slices[1].box = {{1, 3}, {0, 3}};  // as many elements, but row 1 twice and row 3 never
  EXPECT_THAT(problem(to_text(manifest)), HasSubstr("overlap"));
}

}  // namespace
}  // namespace ddpm::checkpoint
