// Sets of all roles: what ShardWriter writes, Dataset reads.
#include <cstring>

#include <gmock/gmock.h>

#include "base/crc32c.h"
#include "data/dataset.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"

namespace ddpm::data {
namespace {

using base::DType;
using testing::HasSubstr;

constexpr ImageFormat kImage = {.height = 4, .width = 6, .channels = 2, .dtype = DType::f32};
constexpr ImageFormat kVolume = {.height = 4, .width = 6, .channels = 2, .dtype = DType::f32, .depth = 2};

/// Bytes that follow from a field, an image and a place; zeros and ones for masks.
std::vector<std::byte> sample_values(const Field& field, int64_t image) {
  std::vector<std::byte> values(field.bytes());
  const std::size_t size = base::size_of(field.dtype);
  for (std::size_t e = 0; e < values.size() / size; ++e) {
    const auto number = static_cast<int64_t>(image * 31 + static_cast<int64_t>(e) * 7 + static_cast<int>(field.role));
    const float real = static_cast<float>(number % 100) / 8.0F;
    const auto small = static_cast<uint8_t>(field.role == FieldRole::mask ? number % 3 == 0 : number);
    const int64_t label = number % 3;
    if (field.dtype == DType::f32) std::memcpy(&values[e * size], &real, size);
    if (field.dtype == DType::u8) std::memcpy(&values[e * size], &small, size);
    if (field.dtype == DType::i64) std::memcpy(&values[e * size], &label, size);
  }
  return values;
}

class FieldSetsTest : public SharedFolderTest {
 protected:
  static std::vector<Field> fields_of(const ImageFormat& image, bool mask_of_each) {
    std::vector<int64_t> coarse = {image.height / 2, image.width / 2, 3};
    if (image.depth > 0) coarse.insert(coarse.begin(), image.depth / 2);
    return {make_field(FieldRole::image, "/images", image.shape(), image.dtype, false),
            make_field(FieldRole::labels, "/labels", {}, DType::i64, false),
            make_field(FieldRole::condition, "/condition", coarse, DType::u8, false),
            make_field(FieldRole::parameters, "/parameters", {5}, DType::f32, false),
            make_field(FieldRole::static_values, "/static", image.shape(), DType::f32, true),
            make_field(FieldRole::mask, "/mask", image.sides(), DType::u8, !mask_of_each)};
  }

  /// A set whose shards have room for twice as many images as they get.
  void write(const std::vector<Field>& fields, const std::vector<int64_t>& counts) {
    std::vector<ShardResult> shards;
    files_->create_directories(set());
    int64_t index = 0;
    for (const int64_t count : counts) {
      ShardWriter::Contents contents;
      for (const Field& field : fields) {
        if (!field.per_set) contents.fields.push_back(field);
        if (field.per_set && shards.empty()) {
          contents.set_fields.push_back(field);
          contents.set_values.push_back(sample_values(field, 0));
        }
        if (field.per_set && field.role == FieldRole::mask) contents.set_mask = sample_values(field, 0);
      }
      const std::vector<Field> each = contents.fields;
      ShardWriter writer(*files_, set() / shard_file_name(std::ssize(shards), std::ssize(counts)), std::move(contents),
                         2 * count);
      for (int64_t i = 0; i < count; ++i, ++index) append(writer, each, index);
      shards.push_back(writer.finish());
    }
    write_dataset_info(*files_, set(), assemble("a set", fields, {"a", "b", "c"}, shards));
  }
  static void append(ShardWriter& writer, const std::vector<Field>& fields, int64_t index) {
    std::vector<std::vector<std::byte>> values;
    for (const Field& field : fields) values.push_back(sample_values(field, index));
    writer.append(FieldValues(values.begin(), values.end()));
  }
  void expect_same(const std::vector<Field>& fields, int64_t count) {
    Dataset dataset = Dataset::open(comm(), set());
    ASSERT_EQ(dataset.size(), count);
    EXPECT_EQ(dataset.fields().size() + dataset.set_fields().size(), fields.size());
    for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
      const Field& field = dataset.fields()[f];
      const std::size_t bytes = field.bytes();
      std::vector<std::byte> values(static_cast<std::size_t>(count) * bytes);
      if (field.is_read_in_blocks()) {
        dataset.read_unconfirmed(f, 0, count, values);
      } else {
        std::ranges::copy(dataset.held_values(f), values.begin());
      }
      for (int64_t i = 0; i < count; ++i) {
        const auto one = std::span(values).subspan(static_cast<std::size_t>(i) * bytes, bytes);
        EXPECT_TRUE(std::ranges::equal(one, sample_values(field, i))) << field.name << " of image " << i;
      }
    }
    for (std::size_t f = 0; f < dataset.set_fields().size(); ++f) {
      EXPECT_TRUE(std::ranges::equal(dataset.set_values(f), sample_values(dataset.set_fields()[f], 0)));
    }
    dataset.close(comm());
  }
  [[nodiscard]] Path set() const { return folder_ / "set"; }

  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

TEST_F(FieldSetsTest, EveryRoleIsReadAsItWasWritten) {
  for (const ImageFormat& image : {kImage, kVolume}) {
    for (const bool mask_of_each : {false, true}) {
      const std::vector<Field> fields = fields_of(image, mask_of_each);
      on_rank_0([&] {
        files_->remove_all(set());
        write(fields, {5, 0, 3});
      });
      expect_same(fields, 8);
    }
  }
}

TEST_F(FieldSetsTest, StatisticsAreOfValidPixels) {
  const std::vector<Field> fields = fields_of(kImage, true);
  on_rank_0([&] { write(fields, {4, 3}); });
  const Dataset dataset = Dataset::open(comm(), set());
  double sum = 0.0;
  int64_t count = 0;
  for (int64_t i = 0; i < 7; ++i) {
    const auto image = sample_values(fields[0], i);
    const auto mask = sample_values(fields[5], i);
    for (std::size_t p = 0; p < mask.size(); ++p) {
      if (mask[p] == std::byte{0}) continue;
      float value = 0.0F;
      std::memcpy(&value, &image[(2 * p + 1) * sizeof(float)], sizeof(float));
      sum += value;
      ++count;
    }
  }
  EXPECT_NEAR(dataset.info().statistics.at(1).mean, sum / static_cast<double>(count), 1e-12);
}

/// HDF5's metadata and all that is held lie before the first value that is read in blocks, where a digest covers them.
TEST_F(FieldSetsTest, EveryByteOfTheHeaderIsCoveredByItsDigest) {
  const std::vector<Field> fields = fields_of(kImage, true);
  on_rank_0([&] {
    write(fields, {5});
    const DatasetInfo info = read_dataset_info(set());
    const ShardInfo& shard = info.shards.front();
    const uint64_t values = 5 * (fields[0].bytes() + fields[2].bytes() + fields[5].bytes());
    EXPECT_LT(shard.size - shard.header_size - values, 3U * 4096U);
    const Path file = set() / shard.file;
    std::string text = test::read_text(file);
    text[shard.header_size - 1] ^= 1;
    test::write_text(file, text);
  });
  EXPECT_THAT(refusal([&] { return Dataset::open(comm(), set()); }), HasSubstr("the file is damaged"));
}

TEST_F(FieldSetsTest, WhatNoSetMayHoldIsRefused) {
  on_rank_0([&] {
    files_->create_directories(set());
    const std::vector<Field> all = fields_of(kImage, true);
    const std::vector<Field> fields = {all[0], all[3], all[5]};
    ShardWriter writer(*files_, set() / "a.h5", {.fields = fields}, 2);
    std::vector<std::vector<std::byte>> values;
    for (const Field& field : fields) values.push_back(sample_values(field, 0));
    const auto message_with = [&](std::size_t field, std::size_t at, float value) {
      auto changed = values;
      std::memcpy(&changed[field][at * sizeof(float)], &value, sizeof(float));
      try {
        writer.append(FieldValues(changed.begin(), changed.end()));
      } catch (const base::DatasetError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto valid = static_cast<std::size_t>(std::ranges::find(values[2], std::byte{1}) - values[2].begin());
    const auto hidden = static_cast<std::size_t>(std::ranges::find(values[2], std::byte{0}) - values[2].begin());
    EXPECT_THAT(message_with(0, 2 * valid, nan), HasSubstr(":/images: image 0 holds nan in channel 0"));
    EXPECT_THAT(message_with(1, 3, nan), HasSubstr(":/parameters: parameter 3 of image 0 is nan"));
    EXPECT_EQ(writer.count(), 0);
    EXPECT_EQ(message_with(0, 2 * hidden, nan), "");  // which the mask hides
    EXPECT_EQ(writer.count(), 1);
    values[2].front() = std::byte{2};
    EXPECT_THROW(writer.append(FieldValues(values.begin(), values.end())), base::DatasetError);
  });
}

}  // namespace
}  // namespace ddpm::data
