#include "data/dataset.h"

#include <gmock/gmock.h>

#include "base/random.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "support/test_stream.h"

namespace ddpm::data {
namespace {

using testing::ElementsAreArray;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ImageFormat kFormat = {.height = 8, .width = 6, .channels = 3, .dtype = base::DType::u8};
const std::vector<int64_t> kCounts = {5, 0, 1, 9};

class DatasetTest : public SharedFolderTest {
 protected:
  /// Opens DATASET "set", written with `has_labels`.
  Dataset open_new(bool has_labels, const DatasetOptions& options = {}, const ImageFormat& format = kFormat) {
    on_rank_0([&] { info_ = write_sample_set(set(), format, has_labels, kCounts); });
    return Dataset::open(comm(), set(), options);
  }
  [[nodiscard]] std::string refusal_after(const std::function<void()>& damage) {
    on_rank_0([&] {
      info_ = write_sample_set(set(), kFormat, true, kCounts);
      damage();
    });
    return refusal([&] { return Dataset::open(comm(), set()); });
  }
  [[nodiscard]] Path set() const { return folder_ / "set"; }
  [[nodiscard]] Path shard(int64_t i) const { return set() / shard_file_name(i, 4); }

  DatasetInfo info_;  // on rank 0
};

std::vector<std::byte> read(const Dataset& set, int64_t first, int64_t count) {
  std::vector<std::byte> images(static_cast<std::size_t>(count) * set.image().bytes());
  set.read_block(first, count, images);
  return images;
}

std::vector<std::byte> expected(const ImageFormat& format, int64_t first, int64_t count) {
  std::vector<std::byte> images;
  for (int64_t i = first; i < first + count; ++i) {
    const auto image = sample_image(format, i);
    images.insert(images.end(), image.begin(), image.end());
  }
  return images;
}

TEST_F(DatasetTest, ReadsAnyRangeAcrossShards) {
  Dataset set = open_new(true);
  EXPECT_EQ(set.size(), 15);
  EXPECT_EQ(set.image(), kFormat);
  for (int64_t first = 0; first < 15; ++first) {
    for (int64_t count = 0; count <= 15 - first; ++count) {
      ASSERT_EQ(read(set, first, count), expected(kFormat, first, count)) << first << " + " << count;
    }
  }
  set.close(comm());
}

TEST_F(DatasetTest, ReadsFloats) {
  ImageFormat format = kFormat;
  format.dtype = base::DType::f32;
  const Dataset set = open_new(false, {}, format);
  EXPECT_EQ(read(set, 3, 10), expected(format, 3, 10));
  EXPECT_EQ(set.info().normalization(), (Normalization{.scale = 1.0, .offset = 0.0}));
}

TEST_F(DatasetTest, SeveralFoldersAreOneSet) {
  on_rank_0([&] {
    write_sample_set(set(), kFormat, true, kCounts);
    write_sample_set(folder_ / "other", kFormat, true, {3, 4});
  });
  Dataset both = Dataset::open(comm(), {{.path = set()}, {.path = folder_ / "other", .weight = 2.0}});
  EXPECT_EQ(both.size(), 22);
  EXPECT_EQ(both.name(), "set, other");
  EXPECT_EQ(both.files().size(), 6U);
  ASSERT_EQ(both.parts().size(), 2U);
  EXPECT_EQ(both.parts()[1].count, 7);
  EXPECT_EQ(both.parts()[1].weight, 2.0);
  std::vector<std::byte> wanted = expected(kFormat, 10, 5);
  std::ranges::copy(expected(kFormat, 0, 6), std::back_inserter(wanted));
  EXPECT_THAT(read(both, 10, 11), ElementsAreArray(wanted));
  std::vector<int64_t> labels;
  for (const int64_t count : {15, 7}) {
    for (int64_t i = 0; i < count; ++i) labels.push_back(sample_label(i));
  }
  EXPECT_THAT(both.labels(), ElementsAreArray(labels));
  both.close(comm());
}

TEST_F(DatasetTest, SetsOfOtherKindsAreNotMixed) {
  on_rank_0([&] {
    write_sample_set(set(), kFormat, true, kCounts);
    write_sample_set(folder_ / "unlabelled", kFormat, false, {3});
    write_sample_set(folder_ / "larger", {.height = 8, .width = 8, .channels = 3, .dtype = base::DType::u8}, true, {3});
  });
  const auto refused = [&](const std::string& name) {
    return refusal([&] { return Dataset::open(comm(), {{.path = set()}, {.path = folder_ / name}}); });
  };
  EXPECT_THAT(refused("unlabelled"), HasSubstr("unlabelled: a field of role labels as "));
  EXPECT_THAT(refused("larger"), HasSubstr("larger: the same field of role image as "));
  EXPECT_THAT(refused("set/" + shard_file_name(3, 4)),
              HasSubstr("several sets are all folders with dataset.json, or all files"));
  EXPECT_THAT(refused("none"), HasSubstr("there is no such dataset"));
}

TEST_F(DatasetTest, EveryRankHasAllLabels) {
  const Dataset set = open_new(true);
  std::vector<int64_t> wanted;
  for (int64_t i = 0; i < 15; ++i) wanted.push_back(sample_label(i));
  EXPECT_THAT(set.labels(), ElementsAreArray(wanted));
  EXPECT_EQ(set.num_classes(), 3);
}

TEST_F(DatasetTest, LabelsMayBeLeftUnreadOrBeAbsent) {
  const Dataset with = open_new(true, {.labels = ""});
  EXPECT_THAT(with.labels(), IsEmpty());
  EXPECT_EQ(with.num_classes(), 0);
  on_rank_0([&] { write_sample_set(folder_ / "other", kFormat, false, {3}); });
  const Dataset without = Dataset::open(comm(), folder_ / "other");
  EXPECT_THAT(without.labels(), IsEmpty());
}

TEST_F(DatasetTest, TheContentHashIsOfTheImagesNotOfTheShards) {
  const std::string hash = open_new(true).content_hash();
  EXPECT_EQ(hash.size(), 64U);
  on_rank_0([&] {
    write_sample_set(folder_ / "one", kFormat, true, {15});
    write_sample_set(folder_ / "fewer", kFormat, true, {14});
    write_sample_set(folder_ / "unlabelled", kFormat, false, {15});
  });
  EXPECT_EQ(Dataset::open(comm(), folder_ / "one").content_hash(), hash);
  EXPECT_EQ(Dataset::open(comm(), folder_ / "one", {.labels = ""}).content_hash(), hash);
  EXPECT_NE(Dataset::open(comm(), folder_ / "fewer").content_hash(), hash);
  EXPECT_NE(Dataset::open(comm(), folder_ / "unlabelled").content_hash(), hash);
}

TEST_F(DatasetTest, AFlippedBitInAnImageIsNamedWhenItIsRead) {
  on_rank_0([&] {
    info_ = write_sample_set(set(), kFormat, true, kCounts);
    const auto offset = info_.shards[3].header_size + 4 * kFormat.bytes() + 77;
    test::flip_bit(shard(3), static_cast<std::streamoff>(offset));
  });
  const Dataset set = Dataset::open(comm(), DatasetTest::set());
  EXPECT_EQ(read(set, 0, 10), expected(kFormat, 0, 10));
  EXPECT_EQ(read(set, 11, 4), expected(kFormat, 11, 4));
  const std::string message = refusal([&] { return read(set, 8, 5); });
  EXPECT_THAT(message, HasSubstr(shard(3).string() + ":/images: image 4 (number 10 of the dataset) is damaged"));
}

TEST_F(DatasetTest, AFlippedBitAnywhereInAHeaderIsRefusedAtOpen) {
  for (const std::streamoff offset : {0, 9, 100, 500, 1000, 1500, 2047}) {
    EXPECT_THAT(refusal_after([&] { test::flip_bit(shard(3), offset); }), EndsWith("the file is damaged")) << offset;
    on_rank_0([&] { std::filesystem::remove_all(set()); });
  }
}

/// Random damage of every kind and place: it is refused at open or at the read.
TEST_F(DatasetTest, NoDamageIsReadSilently) {
  std::string whole;
  on_rank_0([&] {
    write_sample_set(set(), kFormat, true, {15});
    whole = test::read_text(set() / shard_file_name(0, 1));
  });
  int refused = 0;
  constexpr int kTrials = 60;
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    on_rank_0([&] {
      const base::RandomSequence random(1, test::kStream, 0, trial);
      const auto size = static_cast<uint32_t>(whole.size());
      std::string damaged = whole;
      switch (trial % 4) {
        case 0:
          damaged.resize(random.below(size));
          break;
        case 1:
          damaged += 'x';
          break;
        case 2:
          damaged[random.below(size)] ^= static_cast<char>(1U << random.below(8, 1));
          break;
        default:
          for (uint32_t i = 0; i < 64; ++i)
            damaged[(random.below(size) + i) % size] = static_cast<char>(random.bits(1 + i));
      }
      test::write_text(set() / shard_file_name(0, 1), damaged);
    });
    const std::string message = refusal([&] {
      const Dataset damaged = Dataset::open(comm(), set());
      EXPECT_EQ(read(damaged, 0, 15), expected(kFormat, 0, 15)) << trial;
      return 0;
    });
    refused += message != "accepted" ? 1 : 0;
  }
  EXPECT_EQ(refused, kTrials);
}

TEST_F(DatasetTest, ATruncatedOrMissingShardIsRefused) {
  EXPECT_THAT(refusal_after([&] { std::filesystem::resize_file(shard(0), info_.shards[0].size - 1); }),
              HasSubstr("bytes, "));
  on_rank_0([&] { std::filesystem::remove_all(set()); });
  EXPECT_THAT(refusal_after([&] { std::filesystem::remove(shard(2)); }),
              HasSubstr(shard(2).string() + ": cannot get the size: No such file or directory"));
}

TEST_F(DatasetTest, ADescriptionOfOtherImagesIsRefused) {
  // Height and width swapped: the sizes still fit, the shards disagree.
  EXPECT_THAT(refusal_after([&] {
                DatasetInfo other = info_;
                other.fields = image_fields({kFormat.width, kFormat.height, kFormat.channels, kFormat.dtype},
                                            other.normalization(), true);
                write_dataset_info(*base::posix_file_system(), set(), other);
              }),
              HasSubstr("[5, 8, 6, 3] of uint8, dataset.json promises [5, 6, 8, 3] of uint8"));
}

TEST_F(DatasetTest, LabelsOutsideTheClassesAreRefused) {
  EXPECT_THAT(refusal_after([&] {
                DatasetInfo other = info_;
                other.class_names.pop_back();
                write_dataset_info(*base::posix_file_system(), set(), other);
              }),
              HasSubstr("is 2, 0 to 1 is wanted"))
      << "of sample_label, some are 2";
}

TEST_F(DatasetTest, WhatIsNoDatasetIsRefused) {
  EXPECT_THAT(refusal([&] { return Dataset::open(comm(), folder_ / "absent"); }),
              HasSubstr("there is no such dataset"));
  EXPECT_THAT(refusal([&] { return Dataset::open(comm(), folder_); }), HasSubstr("dataset.json: is not there"));
}

TEST_F(DatasetTest, ALargeSetsLabelsAndChecksumsAreThoseOfEachShardOnEveryRank) {
  constexpr int64_t kImages = 100'000;  // 1.2 MB of them, which the ranks of a host share
  on_rank_0([&] {
    write_sample_set(folder_ / "many", {.height = 1, .width = 1, .channels = 1}, true, {40'000, 30'000, 30'000});
  });
  Dataset set = Dataset::open(comm(), folder_ / "many");
  ASSERT_EQ(std::ssize(set.labels()), kImages);
  for (int64_t i = 0; i < kImages; ++i) ASSERT_EQ(set.labels()[static_cast<std::size_t>(i)], sample_label(i));
  std::vector<std::byte> images(kImages);
  EXPECT_NO_THROW(set.read_block(0, kImages, images));  // which compares the checksums
  set.close(comm());
  EXPECT_TRUE(set.labels().empty());
}

}  // namespace
}  // namespace ddpm::data
