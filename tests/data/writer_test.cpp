#include "data/writer.h"

#include <array>
#include <csignal>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/sample_set.h"
#include "h5/file.h"
#include "support/temporary_folder.h"

namespace ddpm::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ImageFormat kFormat = {.height = 16, .width = 16, .channels = 3, .dtype = base::DType::u8};

class WriterTest : public testing::Test {
 protected:
  ShardResult write(const char* name, int64_t count, int64_t capacity, int64_t piece = 1) {
    ShardWriter writer(*files_, folder_.path() / name, kFormat, {kLabelsPath}, capacity);
    std::vector<std::byte> images;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < count; ++i) {
      const auto image = sample_image(kFormat, i);
      images.insert(images.end(), image.begin(), image.end());
      labels.push_back(sample_label(i));
      if (std::ssize(labels) < piece && i + 1 < count) continue;
      writer.append(images, {labels});
      images.clear();
      labels.clear();
    }
    return writer.finish();
  }
  [[nodiscard]] std::string bytes(const char* name) const { return test::read_text(folder_.path() / name); }

  test::TemporaryFolder folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

TEST_F(WriterTest, HoldsImagesLabelsAndTheirChecksums) {
  const ShardResult shard = write("a.h5", 20, 20);
  EXPECT_EQ(shard.info.count, 20);
  const h5::File file = h5::File::open(folder_.path() / "a.h5");
  const h5::Array images = file.array("/images");
  EXPECT_THAT(images.shape(), ElementsAre(20, 16, 16, 3));
  std::vector<std::byte> image(kFormat.bytes());
  images.read_rows(13, 1, image);
  EXPECT_EQ(image, sample_image(kFormat, 13));
  std::vector<uint32_t> checksums(20);
  file.array("/checksums").read_rows(0, 20, std::as_writable_bytes(std::span(checksums)));
  EXPECT_EQ(checksums[13], base::crc32c(image));
  std::vector<int64_t> labels(20);
  file.array("/labels").read_integers(0, 20, labels);
  EXPECT_EQ(labels[13], sample_label(13));
}

TEST_F(WriterTest, ImagesFollowTheHeaderToTheEndAndDigestsFit) {
  const ShardInfo info = write("a.h5", 20, 20).info;
  const std::string all = bytes("a.h5");
  EXPECT_EQ(info.size, all.size());
  EXPECT_EQ(info.header_size % 4096, 0U);
  EXPECT_EQ(info.header_size + 20 * kFormat.bytes(), all.size());
  const auto last = sample_image(kFormat, 19);
  EXPECT_EQ(all.substr(all.size() - last.size()), std::string(reinterpret_cast<const char*>(last.data()), last.size()));
  EXPECT_EQ(info.sha256, base::sha256_hex(all));
  EXPECT_EQ(info.header_sha256, base::sha256_hex(std::string_view(all).substr(0, info.header_size)));
}

TEST_F(WriterTest, BytesDependOnTheImagesOnly) {
  const ShardResult one = write("one.h5", 20, 20, 1);
  const ShardResult many = write("many.h5", 20, 20, 7);
  const ShardResult fewer = write("fewer.h5", 20, 33, 20);
  EXPECT_EQ(bytes("one.h5"), bytes("many.h5"));
  EXPECT_EQ(bytes("one.h5"), bytes("fewer.h5"));
  EXPECT_EQ(one.info, many.info);
  EXPECT_EQ(one.info, fewer.info);
  EXPECT_EQ(files_->list(folder_.path()).size(), 3U);  // nothing temporary is left
}

TEST_F(WriterTest, AnEmptyShardIsValid) {
  EXPECT_EQ(write("exact.h5", 0, 0).info.count, 0);
  const ShardResult none = write("fewer.h5", 0, 5);
  EXPECT_EQ(none.info.header_size, none.info.size);
  EXPECT_EQ(bytes("exact.h5"), bytes("fewer.h5"));
}

TEST_F(WriterTest, NeverWritesOverAFile) {
  test::write_text(folder_.path() / "a.h5", "precious");
  EXPECT_THROW(write("a.h5", 1, 1), base::OutputError);
  EXPECT_EQ(bytes("a.h5"), "precious");
}

/// Room runs out in the middle of the images (RLIMIT_FSIZE stands in for the disk).
TEST_F(WriterTest, AFullDiskIsAnError) {
  constexpr int64_t kCount = 200;
  ShardWriter writer(*files_, folder_.path() / "a.h5", kFormat, {}, kCount);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 64U << 10U, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(writer.append(std::vector<std::byte>(kCount * kFormat.bytes()), {}), base::OutputError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

TEST_F(WriterTest, RefusesFloatsThatAreNoNumbers) {
  const ImageFormat format{.height = 1, .width = 2, .channels = 1, .dtype = base::DType::f32};
  ShardWriter writer(*files_, folder_.path() / "a.h5", format, {}, 2);
  const std::array<float, 4> images = {0.0F, 1.0F, 2.0F, std::numeric_limits<float>::quiet_NaN()};
  try {
    writer.append(std::as_bytes(std::span(images)), {});
    FAIL() << "accepted";
  } catch (const base::DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("image 1 holds nan"));
  }
  EXPECT_EQ(writer.count(), 0);
}

TEST_F(WriterTest, AppendsWithinItsContractOnly) {
  ShardWriter writer(*files_, folder_.path() / "a.h5", kFormat, {kLabelsPath}, 1);
  const auto image = sample_image(kFormat, 0);
  const std::array<int64_t, 1> label = {0};
  EXPECT_THROW(writer.append(image, {}), base::InternalError);
  EXPECT_THROW(writer.append(std::span(image).first(5), {label}), base::InternalError);
  writer.append(image, {label});
  EXPECT_THROW(writer.append(image, {label}), base::InternalError);
}

TEST_F(WriterTest, HoldsOneNumberOfEachColumnForEachImage) {
  ShardWriter writer(*files_, folder_.path() / "a.h5", kFormat, {"/condition_index", "/member"}, 3);
  const std::array<int64_t, 2> condition = {7, 7};
  const std::array<int64_t, 2> member = {0, 1};
  std::vector<std::byte> images = sample_image(kFormat, 0);
  const std::vector<std::byte> second = sample_image(kFormat, 1);
  images.insert(images.end(), second.begin(), second.end());
  EXPECT_THROW(writer.append(images, {condition}), base::InternalError);
  writer.append(images, {condition, member});
  writer.finish();  // which rewrites a file that has room for three
  const h5::File file = h5::File::open(folder_.path() / "a.h5");
  std::array<int64_t, 2> read{};
  file.array("/condition_index").read_rows(0, 2, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, condition);
  file.array("/member").read_rows(0, 2, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, member);
}

TEST_F(WriterTest, AssembledShardsFollowOneAnother) {
  const std::vector<ShardResult> shards = {write("a.h5", 3, 3), write("b.h5", 0, 0), write("c.h5", 2, 2)};
  const DatasetInfo info =
      assemble("a set", image_fields(kFormat, Normalization::of(kFormat.dtype), true), {"x", "y", "z"}, shards);
  EXPECT_EQ(info.count, 5);
  EXPECT_EQ(info.shards[2].first, 3);
  EXPECT_EQ(info.shards[2].file, "shard-00002-of-00003.h5");
  EXPECT_EQ(parse_dataset_info(to_json_text(info), "test"), info);
  EXPECT_THROW(assemble("a set", image_fields(kFormat, {}, true), {}, std::span(shards).subspan(1, 1)),
               base::DatasetError);
}

TEST_F(WriterTest, AFinishedShardSurvivesJson) {
  const ShardResult shard = write("a.h5", 3, 3);
  const ShardResult again = parse_shard_result(to_json_text(shard), kFormat, "journal");
  EXPECT_EQ(again.info, shard.info);
  EXPECT_EQ(again.statistics, shard.statistics);
  EXPECT_THROW(parse_shard_result("{}", kFormat, "journal"), base::DatasetError);
  EXPECT_THROW(parse_shard_result("", kFormat, "journal"), base::DatasetError);
}

TEST_F(WriterTest, AClassNameThatIsNotUtf8IsRefused) {
  const std::vector<ShardResult> shards = {write("a.h5", 3, 3)};
  const DatasetInfo info =
      assemble("a set", image_fields(kFormat, Normalization::of(kFormat.dtype), true), {"\xff"}, shards);
  EXPECT_THROW(to_json_text(info), base::DatasetError);
}

}  // namespace
}  // namespace ddpm::data
