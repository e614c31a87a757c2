#include "checkpoint/safetensors.h"

#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sha256.h"
#include "support/temporary_folder.h"

namespace ddpm::checkpoint {
namespace {

using base::DType;
using base::OutputError;
using testing::ElementsAre;
using testing::HasSubstr;

std::string file_text(const std::string& json, std::size_t data_bytes) {
  std::string text(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(text.data(), &length, sizeof length);
  return text + json + std::string(data_bytes, 'x');
}

class Safetensors : public testing::Test {
 protected:
  [[nodiscard]] base::Path path() const { return folder_.path() / "file.safetensors"; }
  /// The error line that opening a file of this text gives, "" for none.
  std::string problem(const std::string& text) {
    test::write_text(path(), text);
    try {
      SafetensorsFile file(path());
      return {};
    } catch (const OutputError& error) {
      return error.what();
    }
  }
  FileDigest write(std::span<const SafetensorsTensor> tensors, const SafetensorsMetadata& metadata = {}) {
    const auto files = base::posix_file_system();
    const auto file = files->create_exclusive(path());
    FileDigest digest = write_safetensors(*file, tensors, metadata);
    file->close();
    return digest;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Safetensors, ReadBackWhatWasWritten) {
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> mask = {7, 8, 9};
  const std::vector<SafetensorsTensor> tensors = {
      {"mask", DType::u8, {3}, std::as_bytes(std::span(mask))},
      {"b.weight", DType::f32, {2, 3}, std::as_bytes(std::span(weight))},
      {"a.empty", DType::f32, {0, 4}, {}},
      {"a.scalar", DType::f32, {}, std::as_bytes(std::span(weight).last(1))}};
  const FileDigest digest = write(tensors, {{"format", "pt"}});
  EXPECT_EQ(digest.size, std::filesystem::file_size(path()));
  EXPECT_EQ(digest.sha256, base::sha256_file(path()));

  const SafetensorsFile file(path());
  EXPECT_EQ(file.header().metadata, (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_EQ(file.header().entries.size(), 4U);
  EXPECT_EQ(file.header().entries.back().name, "mask");  // narrow elements last, so that all are aligned
  const SafetensorsEntry* entry = file.header().find("b.weight");
  ASSERT_NE(entry, nullptr);
  EXPECT_THAT(entry->shape, ElementsAre(2, 3));
  std::vector<float> read(2);
  file.read(*entry, std::as_writable_bytes(std::span(read)), 3 * sizeof(float));
  EXPECT_THAT(read, ElementsAre(4, 5));
  EXPECT_TRUE(file.header().find("a.scalar")->shape.empty());
  EXPECT_EQ(file.header().find("a.empty")->size(), 0U);
  EXPECT_EQ(file.header().find("c"), nullptr);
  EXPECT_THROW(file.read(*entry, std::as_writable_bytes(std::span(read)), 5 * sizeof(float)), base::InternalError);
}

TEST_F(Safetensors, DataBeginsOnAMultipleOfEightBytes) {
  const std::vector<float> weight = {1};
  for (const std::string name : {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"}) {
    std::filesystem::remove(path());
    const FileDigest digest =
        write(std::vector<SafetensorsTensor>{{name, DType::f32, {1}, std::as_bytes(std::span(weight))}});
    EXPECT_EQ((digest.size - sizeof(float)) % 8, 0U) << name;
  }
}

TEST_F(Safetensors, OfTwoTensorsOfOneNameIsABug) {
  const std::vector<float> weight = {1};
  const SafetensorsTensor tensor{"w", DType::f32, {1}, std::as_bytes(std::span(weight))};
  EXPECT_THROW(write(std::vector{tensor, tensor}), base::InternalError);
}

TEST_F(Safetensors, EveryTruncationAndEveryExtraByteIsRefused) {
  const std::string good = file_text(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(problem(good), "");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(problem(good.substr(0, size)), "") << size << " bytes";
  }
  EXPECT_THAT(problem(good + "x"), HasSubstr("9 bytes of data, but its header describes 8"));
}

TEST_F(Safetensors, HeaderLengthIsCappedBeforeMemoryIsTaken) {
  std::string text = file_text("{}", 0);
  for (const uint64_t length : {uint64_t{3}, uint64_t{100'000'001}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::memcpy(text.data(), &length, sizeof length);
    EXPECT_THAT(problem(text), HasSubstr("header of")) << length;
  }
}

TEST_F(Safetensors, DamagedHeadersAreRefusedWithTheReason) {
  struct Case {
    std::string json;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {R"( {"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "no header"},
      {R"([])", "no header"},
      {R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})", "not valid JSON"},
      {R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}garbage)", "not valid JSON"},
      {R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "duplicate"},
      {R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"more":1}})", "unknown key 'more'"},
      {R"({"w":{"dtype":"U8","shape":[8]}})", "'data_offsets' is missing"},
      {R"({"w":{"dtype":"X8","shape":[8],"data_offsets":[0,8]}})", "'dtype' is \"X8\""},
      {R"({"w":{"dtype":"F32","shape":[8],"data_offsets":[0,8]}})", "8 bytes, but its dtype and shape make 32"},
      {R"({"w":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}})", "wanted a whole number"},
      {R"({"w":{"dtype":"U8","shape":[8.0],"data_offsets":[0,8]}})", "wanted a whole number"},
      {R"({"w":{"dtype":"U8","shape":["8"],"data_offsets":[0,8]}})", "wanted a whole number"},
      {R"({"w":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", "too large"},
      {R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[8,0]}})", "'data_offsets' are [8, 0]"},
      {R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8,8]}})", "'data_offsets' are"},
      {R"({"w":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]}})", "wanted a whole number"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})",
       "a gap"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[5],"data_offsets":[3,8]}})",
       "an overlap"},
      {R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[1,8]}})", "a gap"},
      {R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})", "8 bytes of data"},
      {R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "8 bytes of data"},
      {R"({"__metadata__":[],"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "not an object"},
      {R"({"__metadata__":{"k":1},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "not a string"}};
  for (const auto& [json, reason] : cases) EXPECT_THAT(problem(file_text(json, 8)), HasSubstr(reason)) << json;
  const std::string deep = R"({"w":)" + std::string(5000, '[') + std::string(5000, ']') + "}";
  EXPECT_THAT(problem(file_text(deep, 8)), HasSubstr("deep"));
}

TEST_F(Safetensors, FoldersAndMissingFilesAreRefused) {
  EXPECT_THROW(SafetensorsFile(folder_.path()), OutputError);
  EXPECT_THROW(SafetensorsFile(folder_.path() / "absent"), OutputError);
}

TEST_F(Safetensors, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsFile file(path()), OutputError);
}

TEST_F(Safetensors, MoreAxesThanAnyTensorHasAreRefused) {
  std::string shape = "1";
  for (int i = 0; i < 100000; ++i) shape += ",1";
  const std::string json = R"({"a": {"dtype": "U8", "shape": [)" + shape + R"(], "data_offsets": [0, 1]}})";
  EXPECT_THAT(problem(file_text(json, 1)), HasSubstr("100001 axes, at most 16"));
}

}  // namespace
}  // namespace ddpm::checkpoint
