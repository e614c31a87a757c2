#include "data/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "support/temporary_folder.h"

namespace ddpm::data {
namespace {

using base::DatasetError;
using base::OrderedJson;
using testing::HasSubstr;

DatasetInfo example() {
  const std::string digest(64, 'a');
  DatasetInfo info;
  info.count = 5;
  info.fields = image_fields({.height = 4, .width = 3, .channels = 2, .dtype = base::DType::f32},
                             {.scale = 1.0 / 3.0, .offset = -0.1}, /*has_labels=*/true);
  info.fields[0].variables[1] = {.name = "temperature", .unit = "K", .transform = info.normalization()};
  info.class_names = {"Kätzchen", "dog \"x\""};
  info.statistics = {{.mean = 0.1, .std = 1e-30, .min = -3.0, .max = 1.0 / 3.0}, {}};
  info.shards = {{.file = "shard-00000-of-00002.h5",
                  .first = 0,
                  .count = 3,
                  .size = 1000 + 3 * 96,
                  .sha256 = digest,
                  .header_size = 1000,
                  .header_sha256 = digest},
                 {.file = "shard-00001-of-00002.h5",
                  .first = 3,
                  .count = 2,
                  .size = 900 + 2 * 96,
                  .sha256 = digest,
                  .header_size = 900,
                  .header_sha256 = digest}};
  return info;
}

std::string refusal(const std::string& text) {
  try {
    parse_dataset_info(text, "dataset.json");
  } catch (const DatasetError& error) {
    return error.what();
  }
  return "accepted";
}

/// The example's text after `edit`, with a fitting checksum: what a careful forger would write.
template <typename Edit>
std::string forged(const Edit& edit) {
  OrderedJson json = OrderedJson::parse(to_json_text(example()));
  json.erase("checksum");
  edit(json);
  json["checksum"] = base::sha256_hex(json.dump());
  return json.dump();
}

TEST(DatasetInfo, TextAndBackIsTheSame) {
  EXPECT_EQ(parse_dataset_info(to_json_text(example()), "dataset.json"), example());
}

TEST(DatasetInfo, NormalizationOfStoredTypes) {
  const Normalization u8 = Normalization::of(base::DType::u8);
  EXPECT_DOUBLE_EQ(0 * u8.scale + u8.offset, -1.0);
  EXPECT_DOUBLE_EQ(255 * u8.scale + u8.offset, 1.0);
  EXPECT_EQ(Normalization::of(base::DType::f32), (Normalization{.scale = 1.0, .offset = 0.0}));
}

TEST(DatasetInfo, AChangedCharacterIsNoticed) {
  const std::string text = to_json_text(example());
  int noticed = 0;
  int changes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' || text[i] == '\n') continue;  // layout carries no meaning
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    ++changes;
    noticed += refusal(other) != "accepted" ? 1 : 0;
  }
  EXPECT_EQ(noticed, changes);
}

TEST(DatasetInfo, EveryTruncationIsNoticed) {
  const std::string text = to_json_text(example());
  for (std::size_t n = 0; n + 2 < text.size(); ++n) ASSERT_NE(refusal(text.substr(0, n)), "accepted") << n;
}

TEST(DatasetInfo, AnotherVersionIsNamed) {
  EXPECT_EQ(refusal(forged([](OrderedJson& j) { j["version"] = 3; })),
            "dataset.json: format version 3, this program reads versions 1 to 2");
  EXPECT_EQ(refusal("{\"images\": 3}"), "dataset.json: this is not the description of a dataset");
  EXPECT_EQ(refusal("[]"), "dataset.json: this is not the description of a dataset");
}

TEST(DatasetInfo, VersionOneHadNoListOfFields) {
  const std::string text = forged([](OrderedJson& j) {
    j["version"] = 1;
    j.erase("fields");
  });
  DatasetInfo wanted = example();
  wanted.fields = image_fields(wanted.image(), wanted.normalization(), wanted.has_labels());
  EXPECT_EQ(parse_dataset_info(text, "dataset.json"), wanted);
}

using Edit = void (*)(OrderedJson&);
using Forgeries = std::vector<std::pair<Edit, std::string>>;

void expect_refused(const Forgeries& cases) {
  for (const auto& [edit, reason] : cases) EXPECT_THAT(refusal(forged(edit)), HasSubstr(reason));
}

TEST(DatasetInfo, ShardsThatCannotBeAreRefusedEvenWithAFittingChecksum) {
  expect_refused({
      {[](OrderedJson& j) { j["shards"][0]["file"] = "../secret.h5"; }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][0]["file"] = "/etc/passwd"; }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][0]["file"] = ".."; }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][0]["file"] = ""; }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][0]["file"] = "a\nb"; }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][0]["file"] = "a\x7f"; }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][0]["file"] = std::string("a\0b", 3); }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][0]["file"] = std::string(256, 'a'); }, "a plain file name is wanted"},
      {[](OrderedJson& j) { j["shards"][1]["file"] = j["shards"][0]["file"]; }, "as of a shard before it"},
      {[](OrderedJson& j) { j["shards"][0]["sha256"] = "ABC"; }, "wanted a SHA-256"},
      {[](OrderedJson& j) { j["shards"][0]["size"] = 1001; }, "do not make 1001 bytes"},
      {[](OrderedJson& j) { j["shards"][0]["count"] = int64_t{1} << 40; }, "do not make"},
      {[](OrderedJson& j) { j["shards"][0]["count"] = -1; }, "'count' is -1"},
      {[](OrderedJson& j) { j["shards"][0]["count"] = 18446744073709551615ULL; }, "'count' is 18446744073709551615"},
      {[](OrderedJson& j) { j["shards"][1]["first"] = 2; }, "shard 1: \"first\" is 2, after the shards before it 3"},
      {[](OrderedJson& j) { j["shards"].erase(1); }, "\"count\" is 5, the shards hold 3"},
      {[](OrderedJson& j) { j["count"] = 4; }, "\"count\" is 4, the shards hold 5"},
      {[](OrderedJson& j) { j["count"] = 5.0; }, "'count' is 5.0, wanted a whole number"},
      {[](OrderedJson& j) { j["height"] = 0; }, "'height' is 0"},
      {[](OrderedJson& j) { j["height"] = j["width"] = 65536; }, "are larger than"},
      {[](OrderedJson& j) { j["dtype"] = "float64"; }, "uint8, float32 or int64 is wanted"},
      {[](OrderedJson& j) { j["dtype"] = "uint8"; }, "uint8 images are always x / 127.5 - 1"},
      {[](OrderedJson& j) { j["normalization"]["scale"] = 0.0; }, "images would vanish"},
      {[](OrderedJson& j) { j["normalization"]["offset"] = nullptr; }, "wanted a number"},
      {[](OrderedJson& j) { j["statistics"].erase(0); }, "statistics of 1 channels, 2 are wanted"},
      {[](OrderedJson& j) {
         j["class_names"] = {1, 2};
       },
       "an array of texts is wanted"},
  });
}

TEST(DatasetInfo, FieldsThatCannotBeAreRefusedEvenWithAFittingChecksum) {
  expect_refused({
      {[](OrderedJson& j) { j["fields"][0]["role"] = "mask"; }, "masks are [4, 3, 2] of float32 with 2 variables"},
      {[](OrderedJson& j) { j["fields"].erase(0); }, "no field has the role image"},
      {[](OrderedJson& j) { j["fields"].erase(1); }, "\"fields\" says another thing of images or labels"},
      {[](OrderedJson& j) { j["fields"][1] = j["fields"][0]; }, "has the name, path or role of a field before it"},
      {[](OrderedJson& j) { j["fields"][0]["path"] = "images"; }, "the path of an HDF5 dataset is wanted"},
      {[](OrderedJson& j) { j["fields"][0]["name"] = "a\nb"; }, "1 to 255 printable bytes are wanted"},
      {[](OrderedJson& j) { j["fields"][0]["shape"][1] = -3; }, "\"shape\" holds -3"},
      {[](OrderedJson& j) { j["fields"][0]["shape"][0] = 5; }, "\"fields\" says another thing of images or labels"},
      {[](OrderedJson& j) { j["fields"][0]["dtype"] = "float16"; }, "\"dtype\" is \"float16\""},
      {[](OrderedJson& j) { j["fields"][1]["dtype"] = "uint8"; }, "labels are [] of uint8 with 0 variables"},
      {[](OrderedJson& j) { j["fields"][0]["variables"].erase(0); }, "one variable for each channel is wanted"},
      {[](OrderedJson& j) { j["fields"][0]["variables"][1]["transform"]["scale"] = 2.0; },
       "\"fields\" says another thing of images or labels"},
      {[](OrderedJson& j) { j["fields"][0]["variables"][1]["transform"]["type"] = "root"; },
       "wanted one of affine, standardize, minmax, log1p"},
      {[](OrderedJson& j) { j["fields"][0]["variables"][1]["transform"]["type"] = "minmax"; }, "key 'min' is missing"},
      {[](OrderedJson& j) {
         j["fields"][0]["variables"][1]["transform"] = {{"type", "minmax"}, {"min", 2.0}, {"max", 2.0}};
       },
       "\"max\" is 2, more than the \"min\" of 2 is wanted"},
      {[](OrderedJson& j) {
         j["fields"][0]["variables"][1]["transform"] = {{"type", "standardize"}, {"mean", 2.0}, {"std", -1.0}};
       },
       "\"std\" is -1, a positive number is wanted"},
      {[](OrderedJson& j) { j["fields"][0]["per_set"] = true; },
       "images are [4, 3, 2] of float32 with 2 variables, once"},
      {[](OrderedJson& j) { j["fields"][0]["per_set"] = false; }, "\"per_set\" is false"},
      {[](OrderedJson& j) {
         j["fields"][1] = {{"name", "mask"},  {"role", "mask"},   {"path", "/mask"},
                           {"shape", {4, 4}}, {"dtype", "uint8"}, {"variables", OrderedJson::array()}};
       },
       "masks of 4 × 4 (height × width) beside images of 4 × 3: the same size is wanted"},
      {[](OrderedJson& j) { j["depth"] = 2; }, "\"fields\" says another thing of images or labels"},
      {[](OrderedJson& j) { j["depth"] = 0; }, "'depth' is 0"},
      {[](OrderedJson& j) {
         j["fields"][0]["shape"] = {2, 4, 3, 2};
       },
       "\"fields\" says another thing of images"},
      {[](OrderedJson& j) { j.erase("fields"); }, "key 'fields' is missing"},
      {[](OrderedJson& j) { j["version"] = 1; }, "unknown key 'fields'"},
      {[](OrderedJson& j) { j["extra"] = 1; }, "unknown key 'extra'"},
      {[](OrderedJson& j) { j.erase("has_labels"); }, "key 'has_labels' is missing"},
  });
}

TEST(DatasetInfo, AFolderWithoutADescriptionIsRefused) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(read_dataset_info(folder.path()), DatasetError);
  std::filesystem::create_directory(folder.path() / kDescriptionFile);
  EXPECT_THROW(read_dataset_info(folder.path()), DatasetError);
}

TEST(DatasetInfo, APipeIsRefusedAndNotWaitedFor) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / kDescriptionFile).c_str(), 0600), 0);
  EXPECT_THROW(read_dataset_info(folder.path()), DatasetError);
}

TEST(DatasetInfo, IsReadBackFromItsFolder) {
  const test::TemporaryFolder folder;
  write_dataset_info(*base::posix_file_system(), folder.path(), example());
  EXPECT_EQ(read_dataset_info(folder.path()), example());
}

TEST(Sha256OfPrefix, CoversExactlyThePrefix) {
  const test::TemporaryFolder folder;
  const Path path = folder.path() / "file";
  const std::string text((std::size_t{1} << 20U) + 77, 'q');
  test::write_text(path, text + "more");
  EXPECT_EQ(sha256_of_prefix(path, text.size()), base::sha256_hex(text));
  EXPECT_THROW(sha256_of_prefix(path, text.size() + 5), DatasetError);
}

}  // namespace
}  // namespace ddpm::data
