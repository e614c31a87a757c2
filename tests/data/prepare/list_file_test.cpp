#include "data/prepare/list_file.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/prepare/test_files.h"
#include "data/prepare/webdataset.h"
#include "support/forwarding_files.h"

namespace ddpm::data::prepare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class ListFile : public testing::Test {
 protected:
  PictureFiles read(const std::string& text, bool with_labels = true) {
    test::write_bytes(path_, text);
    return unpack_list(pack(read_list(*files_, path_, with_labels)));
  }
  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const base::DatasetError& error) {
      return error.what();
    }
    return "none";
  }

  test::TemporaryFolder folder_;
  base::Path path_ = folder_.path() / "list.tsv";
  const std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

/// A disk on which each file names one picture.
class DiskOfLists : public test::ForwardingFiles {
 public:
  [[nodiscard]] std::string read(const base::Path& /*path*/, uint64_t /*most*/) const override { return "there.png"; }
};

TEST_F(ListFile, IsReadFromTheDiskThatIsGiven) {
  test::write_bytes(path_, "here.png");
  EXPECT_THAT(read_list(DiskOfLists(), path_, true).names, ElementsAre("there.png"));
}

TEST_F(ListFile, NamesPicturesInItsOrder) {
  const PictureFiles list = read("b/2.png\n\n/abs/1 x.png\r\nb/2.png");
  EXPECT_THAT(list.names, ElementsAre("b/2.png", "/abs/1 x.png", "b/2.png"));
  EXPECT_EQ(list.root, folder_.path());
  EXPECT_EQ(list.set.source, path_.string());
  EXPECT_FALSE(list.set.has_labels);
}

TEST_F(ListFile, AByteOrderMarkAndCommentsAreNoPictures) {
  const PictureFiles list = read("\xEF\xBB\xBF# made by hand\na.png\t1\r\n#b.png\t2\n./#c.png\t0\n");
  EXPECT_THAT(list.names, ElementsAre("a.png", "./#c.png"));
  EXPECT_THAT(list.labels, ElementsAre(1, 0));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("names no picture"));
}

TEST_F(ListFile, ADeviceIsRefusedWithoutBeingRead) {
  try {
    static_cast<void>(read_list(*files_, "/dev/zero", true));
    FAIL() << "it was accepted";
  } catch (const base::DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/zero: "));
  }
}

TEST_F(ListFile, WholeNumbersAreTheClassesThemselves) {
  const PictureFiles list = read("a.png\t7\nb.png\t0\n");
  EXPECT_THAT(list.labels, ElementsAre(7, 0));
  EXPECT_EQ(list.set.classes, 8);
  EXPECT_THAT(list.set.class_names, IsEmpty());
}

TEST_F(ListFile, OtherLabelsAreNamesInOrder) {
  const PictureFiles list = read("a.png\tzebra\nb.png\tant\nc.png\tzebra\nd.png\t10\n");
  EXPECT_THAT(list.set.class_names, ElementsAre("10", "ant", "zebra"));
  EXPECT_THAT(list.labels, ElementsAre(2, 1, 2, 0));
  EXPECT_EQ(list.set.classes, 3);
  const PictureFiles without = read("a.png\tzebra\n", false);
  EXPECT_FALSE(without.set.has_labels);
  EXPECT_THAT(without.names, ElementsAre("a.png"));
}

TEST_F(ListFile, AnOddNumberMakesNoNamesOfTheOthers) {
  for (const char* odd : {"-1", "1.0", "1 ", "3000000000"}) {
    EXPECT_THAT(refusal(std::string("a.png\t0\nb.png\t") + odd + "\nc.png\t10\n"),
                HasSubstr(std::string("the label of b.png is \"") + odd + "\", and all labels are numbers"));
  }
}

TEST_F(ListFile, WhatIsNoListIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(""), HasSubstr("names no picture"));
  EXPECT_THAT(refusal("\n\n"), HasSubstr("names no picture"));
  EXPECT_THAT(refusal("a.png\t1\nb.png\n"), HasSubstr("line 2 has no label, the first line has one"));
  EXPECT_THAT(refusal("a.png\n\nb.png\t1\n"), HasSubstr("line 3 has a label, the first line has none"));
  EXPECT_THAT(refusal("a.png\t1\t2\n"), HasSubstr("line 1 is \"a.png\\t1\\t2\""));
  EXPECT_THAT(refusal("a.png\t\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("\t1\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal(std::string("a\0b\n", 4)), HasSubstr("line 1 holds a zero byte"));
}

TEST_F(ListFile, IsToldByItsName) {
  EXPECT_TRUE(is_list_name("x/train.TXT"));
  EXPECT_TRUE(is_list_name("train.tsv"));
  EXPECT_TRUE(is_list_name("train.lst"));
  EXPECT_FALSE(is_list_name("train.csv"));
  EXPECT_FALSE(is_list_name("txt"));
}

TEST(WebDataset, AKeyEndsAtTheFirstDotOfTheName) {
  EXPECT_EQ(sample_key("a.b/00.left.png"), "a.b/00");
  EXPECT_EQ(sample_key("00.cls"), "00");
  EXPECT_EQ(sample_key("plain"), "plain");
}

TEST(WebDataset, LabelsAreWholeNumbers) {
  EXPECT_EQ(label_of_cls(" 42\n"), 42);
  EXPECT_EQ(label_of_cls("2147483647"), 2147483647);
  for (const char* text : {"", " \n", "-1", "dog", "1.0", "1 2", "2147483648", "99999999999999999999"}) {
    EXPECT_EQ(label_of_cls(text), std::nullopt) << text;
  }
  EXPECT_EQ(label_of_json(R"({"caption": "x", "label": 3, "cls": 4})"), 3);
  EXPECT_EQ(label_of_json(R"({"label": "dog", "cls": 4})"), 4);
  for (const char* text : {"", "3", "[]", "{", R"({"label": -1})", R"({"label": 1.5})", R"({"label": true})"}) {
    EXPECT_EQ(label_of_json(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ddpm::data::prepare
