// Tests which kind of source SOURCE is taken for.
#include "data/prepare/find_source.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/prepare/record_files.h"

namespace ddpm::data::prepare {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using testing::ThrowsMessage;

class FindSource : public testing::Test {
 protected:
  [[nodiscard]] const fs::path& root() const { return folder_.path(); }
  void add(const std::string& name, const std::string& bytes) const { test::write_bytes(root() / name, bytes); }
  void add_mnist(const std::string& prefix, uint32_t count) const {
    add(prefix + "-images-idx3-ubyte", test::idx_header({count, 4, 4}) + test::noise(std::size_t{count} * 16));
    add(prefix + "-labels-idx1-ubyte", test::idx_header({count}) + test::labels(count, 10));
  }
  // NOLINTNEXTLINE(modernize-use-nodiscard): some are to be refused
  std::unique_ptr<ImageSource> find(const std::vector<std::string>& names,
                                    SourceFormat format = SourceFormat::automatic, Labels labels = Labels::kept) const {
    SourceOptions options;
    options.format = format;
    options.labels = labels;
    for (const std::string& name : names) options.paths.push_back(root() / name);
    return open_source(*files_, options, find_source(*files_, options));
  }

 private:
  test::TemporaryFolder folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

TEST_F(FindSource, FilesAreToldByTheirContent) {
  add_mnist("t10k", 12);
  add("ten.bin", test::cifar10(5));
  add("more.bin", test::cifar10(6));
  add("hundred.bin", test::cifar100(7));
  EXPECT_THAT(find({"t10k-images-idx3-ubyte"})->description(), StartsWith("12 images of 4 x 4 x 1 (IDX, 10 classes)"));
  EXPECT_THAT(find({"ten.bin", "more.bin"})->description(), StartsWith("11 images of 32 x 32 x 3 (CIFAR-10, 10 cl"));
  EXPECT_THAT(find({"hundred.bin"})->description(), StartsWith("7 images of 32 x 32 x 3 (CIFAR-100, 100 cl"));
  EXPECT_THAT(
      [&] {
        find({"ten.bin", "hundred.bin"});
      },
      ThrowsMessage<base::DatasetError>(HasSubstr("hundred.bin: 21518 bytes, wanted whole records of 3073")));
}

TEST_F(FindSource, TheFormatMayBeSaid) {
  add("zeros.bin", std::string(std::size_t{3073} * 3074, '\0'));
  EXPECT_THROW(find({"zeros.bin"}), base::DatasetError);
  EXPECT_EQ(find({"zeros.bin"}, SourceFormat::cifar10)->size(), 3074);
  EXPECT_EQ(find({"zeros.bin"}, SourceFormat::cifar100)->size(), 3073);
  // A dark picture of CIFAR-10 whose first bytes could begin an IDX file.
  std::string dark = test::cifar10(1);
  dark.replace(0, 4, test::idx_header({1, 1, 1}), 0, 4);
  add("dark.bin", dark);
  EXPECT_THROW(find({"dark.bin"}, SourceFormat::automatic, Labels::none), base::DatasetError);
  EXPECT_EQ(find({"dark.bin"}, SourceFormat::cifar10)->size(), 1);
}

TEST_F(FindSource, AFolderWithoutPicturesStandsForItsTrainingFiles) {
  add_mnist("train", 20);
  add_mnist("t10k", 10);
  EXPECT_EQ(find({""})->size(), 20);
  for (int i = 1; i <= 4; ++i) add("c10/data_batch_" + std::to_string(i) + ".bin", test::cifar10(2));
  add("c10/test_batch.bin", test::cifar10(9));
  EXPECT_THAT([&] { find({"c10"}); }, ThrowsMessage<base::DatasetError>(HasSubstr("data_batch_5.bin: not there")));
  add("c10/data_batch_5.bin", test::cifar10(3));
  add("c10/batches.meta.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n\n");
  EXPECT_EQ(find({"c10"})->size(), 11);
  EXPECT_THAT(find({"c10"})->class_names(), SizeIs(10));
  add("c100/train.bin", test::cifar100(8));
  add("c100/test.bin", test::cifar100(3));
  EXPECT_EQ(find({"c100"})->size(), 8);
  add("c10/train.bin", test::cifar100(8));
  EXPECT_THAT([&] { find({"c10"}); }, ThrowsMessage<base::DatasetError>(HasSubstr("both cifar10 and cifar100")));
  EXPECT_EQ(find({"c10"}, SourceFormat::cifar100)->size(), 8);
}

TEST_F(FindSource, AFolderWithAPictureIsAFolderOfPictures) {
  add_mnist("train", 20);
  add("deep/one.png", "x");
  EXPECT_THAT(find({""})->description(), StartsWith("1 image; 2 other files passed over: 2 without an ending"));
  EXPECT_EQ(find({""}, SourceFormat::idx)->size(), 20);
}

TEST_F(FindSource, LabelsOfFilesAreKeptAndThoseOfFoldersAreAskedFor) {
  add_mnist("train", 20);
  add("pictures/a/one.png", "x");
  EXPECT_TRUE(find({""}, SourceFormat::idx)->has_labels());
  EXPECT_FALSE(find({""}, SourceFormat::idx, Labels::none)->has_labels());
  EXPECT_FALSE(find({"pictures"})->has_labels());
  EXPECT_TRUE(find({"pictures"}, SourceFormat::automatic, Labels::folder)->has_labels());
  EXPECT_THAT([&] { find({"train-images-idx3-ubyte"}, SourceFormat::automatic, Labels::folder); },
              ThrowsMessage<base::ConfigError>(HasSubstr("--labels folder")));
  fs::remove(root() / "train-labels-idx1-ubyte");
  EXPECT_THAT([&] { find({"train-images-idx3-ubyte"}); },
              ThrowsMessage<base::DatasetError>(HasSubstr("--labels none goes without")));
}

TEST_F(FindSource, WhatIsNoneOfThemIsRefused) {
  add("empty/notes.txt", "x");
  add("data_batch_1", test::noise(5000));
  add("none-images-idx3-ubyte", test::idx_header({0, 4, 4}));
  EXPECT_THAT([&] { find({"empty"}); },
              ThrowsMessage<base::DatasetError>(
                  HasSubstr("no file ends in .png, .jpg, .jpeg, .webp, .tif or .tiff (it has 1 .txt)")));
  EXPECT_THAT([&] { find({"empty"}, SourceFormat::idx); },
              ThrowsMessage<base::DatasetError>(HasSubstr("training files of idx")));
  EXPECT_THAT([&] { find({"data_batch_1"}); },
              ThrowsMessage<base::DatasetError>(HasSubstr("5000 bytes are not whole records of 3073")));
  add("a.png", "\x89PNG\r\n\x1a\n" + test::noise(100));
  EXPECT_THAT([&] { find({"a.png"}); },
              ThrowsMessage<base::DatasetError>(HasSubstr("a.png: it is a picture; wanted: the folder")));
  EXPECT_THAT([&] { find({"none-images-idx3-ubyte"}, SourceFormat::automatic, Labels::none); },
              ThrowsMessage<base::DatasetError>(HasSubstr("has no images")));
  EXPECT_THAT([&] { find({"absent"}); }, ThrowsMessage<base::DatasetError>(HasSubstr("absent: not there")));
  EXPECT_THAT([&] { find({"data_batch_1", "empty"}); }, ThrowsMessage<base::ConfigError>(HasSubstr("one folder")));
  EXPECT_THAT([&] { find({"data_batch_1"}, SourceFormat::folder); },
              ThrowsMessage<base::DatasetError>(HasSubstr("not a folder")));
  add("c10/data_batch_1.bin", test::cifar10(1));
  add("c10/batches.meta.txt", "\xFF\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_THAT([&] { find({"c10/data_batch_1.bin"}); }, ThrowsMessage<base::DatasetError>(HasSubstr("not UTF-8")));
}

}  // namespace
}  // namespace ddpm::data::prepare
