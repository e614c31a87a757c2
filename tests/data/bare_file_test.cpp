// A single .h5 file, written by any program, serves as a dataset.
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/dataset.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "h5/file.h"

namespace ddpm::data {
namespace {

using h5::Element;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class BareFileTest : public SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    path_ = folder_ / "images.h5";
  }
  /// An array of bytes 0, 1, 2, ... (as many as it has, in order), in a new file or beside others.
  static void add(h5::File& file, const std::string& name, Element element, const std::vector<int64_t>& shape,
                  const std::string& layout = "") {
    h5::Array data = file.create_array(name, element, shape);
    std::vector<std::byte> bytes(static_cast<std::size_t>(data.rows()) * data.row_bytes());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    data.write_rows(0, data.rows(), bytes);
    if (!layout.empty()) data.set_attribute("layout", layout);
  }
  void make(const std::function<void(h5::File&)>& fill) const {
    on_rank_0([&] {
      std::filesystem::remove(path_);
      base::posix_file_system()->create_exclusive(path_)->close();
      h5::File file = h5::File::create(path_, {});
      fill(file);
      file.close();
    });
  }
  [[nodiscard]] std::string refusal_of(const std::function<void(h5::File&)>& fill,
                                       const DatasetOptions& options = {}) const {
    make(fill);
    return refusal([&] { return Dataset::open(comm(), path_, options); });
  }

  Path path_;
};

std::vector<int> values(const Dataset& set, int64_t first, int64_t count) {
  std::vector<std::byte> images(static_cast<std::size_t>(count) * set.image().bytes());
  set.read_block(first, count, images);
  std::vector<int> all;
  for (const std::byte b : images) all.push_back(std::to_integer<int>(b));
  return all;
}

TEST_F(BareFileTest, IsADatasetOfOneShard) {
  make([](h5::File& file) {
    add(file, "/images", Element::u8, {3, 2, 1, 2});
    add(file, "/labels", Element::u8, {3});
  });
  Dataset set = Dataset::open(comm(), path_);
  EXPECT_EQ(set.image(), (ImageFormat{.height = 2, .width = 1, .channels = 2, .dtype = base::DType::u8}));
  EXPECT_THAT(values(set, 1, 2), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(set.labels(), ElementsAre(0, 1, 2));
  EXPECT_EQ(set.num_classes(), 3);
  EXPECT_EQ(set.info().normalization(), Normalization::of(base::DType::u8));
  set.close(comm());
}

TEST_F(BareFileTest, ChannelsFirstIsTurnedToChannelsLast) {
  make([](h5::File& file) { add(file, "/images", Element::u8, {2, 3, 1, 2}, "NCHW"); });
  const Dataset set = Dataset::open(comm(), path_);
  EXPECT_EQ(set.image(), (ImageFormat{.height = 1, .width = 2, .channels = 3, .dtype = base::DType::u8}));
  // Image 0: channel c, pixel p is 2 c + p.
  EXPECT_THAT(values(set, 0, 2), ElementsAre(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11));
  EXPECT_THAT(set.labels(), IsEmpty());
}

TEST_F(BareFileTest, ChannelsFirstFloatsAreTurnedWhole) {
  make([](h5::File& file) { add(file, "/images", Element::f32, {1, 2, 1, 2}, "NCHW"); });
  const Dataset set = Dataset::open(comm(), path_);
  EXPECT_THAT(values(set, 0, 1), ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15));
}

TEST_F(BareFileTest, AValueThatIsNotFiniteIsNamedWithItsImageChannelAndPlace) {
  for (const std::string layout : {"NHWC", "NCHW"}) {
    // Image 2 of three: row 1, column 0, channel 1 of two is not a number.
    const bool first = layout == "NCHW";
    const std::vector<int64_t> shape = first ? std::vector<int64_t>{3, 2, 2, 3} : std::vector<int64_t>{3, 2, 3, 2};
    make([&](h5::File& file) {
      h5::Array images = file.create_array("/images", Element::f32, shape);
      std::vector<float> values(36, 0.5F);
      values[24 + (first ? 6 + 3 : 3 * 2 + 1)] = std::numeric_limits<float>::quiet_NaN();
      images.write_rows(0, 3, std::as_bytes(std::span(values)));
      images.set_attribute("layout", layout);
    });
    const Dataset set = Dataset::open(comm(), path_);
    EXPECT_EQ(values(set, 0, 2).size(), 96U) << "the images before it can be read";
    EXPECT_EQ(refusal([&] { return values(set, 1, 2); }),
              path_.string() +
                  ":/images: image 2 (number 2 of the dataset) holds nan in channel 1 at row 1, column 0; "
                  "finite values are wanted");
  }
}

TEST_F(BareFileTest, NamesOfTheArraysCanBeGiven) {
  make([](h5::File& file) {
    add(file, "/pictures", Element::u8, {2, 1, 1, 1});
    add(file, "/kind", Element::u8, {2, 1});
  });
  const Dataset set = Dataset::open(comm(), path_, {.images = "/pictures", .labels = "/kind"});
  EXPECT_THAT(set.labels(), ElementsAre(0, 1));
  EXPECT_THAT(refusal([&] { return Dataset::open(comm(), path_, {.images = "/pictures", .labels = "/typo"}); }),
              HasSubstr("there is no /typo"));
  EXPECT_THAT(refusal([&] { return Dataset::open(comm(), path_); }), HasSubstr("there is no /images"));
}

TEST_F(BareFileTest, TypesAndShapesThatAreNotSupportedAreNamed) {
  const auto images = [](Element element, const std::vector<int64_t>& shape, const std::string& layout = "") {
    return [=](h5::File& file) { add(file, "/images", element, shape, layout); };
  };
  EXPECT_THAT(refusal_of(images(Element::u16, {1, 2, 2, 1})), HasSubstr("are uint16, uint8 or float32 is wanted"));
  EXPECT_THAT(refusal_of(images(Element::f64, {1, 2, 2, 1})), HasSubstr("are float64, uint8 or float32 is wanted"));
  EXPECT_THAT(refusal_of(images(Element::u8, {4, 2, 2})),
              HasSubstr("its shape is [4, 2, 2], [n, height, width, channels]"));
  EXPECT_THAT(refusal_of(images(Element::u8, {0, 2, 2, 1})), HasSubstr("at least one image"));
  EXPECT_THAT(refusal_of(images(Element::u8, {1, 1, 1, 5000})), HasSubstr("5000 channels, at most 4096 are wanted"));
  EXPECT_THAT(refusal_of(images(Element::u8, {1, 2, 2, 1}, "CHWN")), HasSubstr("\"CHWN\", NHWC or NCHW is wanted"));
}

TEST_F(BareFileTest, LabelsThatDoNotFitAreRefused) {
  const auto labels = [](Element element, const std::vector<int64_t>& shape) {
    return [=](h5::File& file) {
      add(file, "/images", Element::u8, {2, 2, 2, 1});
      add(file, "/labels", element, shape);
    };
  };
  EXPECT_THAT(refusal_of(labels(Element::u8, {3})), HasSubstr("integers of shape [2] are wanted"));
  EXPECT_THAT(refusal_of(labels(Element::f32, {2})), HasSubstr("integers of shape [2] are wanted"));
  EXPECT_EQ(refusal_of(labels(Element::f32, {2}), {.labels = ""}), "accepted");
}

TEST_F(BareFileTest, LabelsBeyondInt64AreRefusedByNameAndValue) {
  const auto labels = [](Element element, uint64_t last) {
    return [=](h5::File& file) {
      add(file, "/images", Element::u8, {3, 1, 1, 1});
      const std::vector<uint64_t> values = {0, 1, last};
      file.create_array("/labels", element, std::vector<int64_t>{3}).write_rows(0, 3, std::as_bytes(std::span(values)));
    };
  };
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  for (const uint64_t value : {kLargest + 1, std::numeric_limits<uint64_t>::max()}) {
    EXPECT_THAT(refusal_of(labels(Element::u64, value)),
                HasSubstr(fmt::format("images.h5:/labels: value 2 is {}, at most {} is wanted", value, kLargest)));
  }
  // The number of classes has to fit as well.
  for (const Element element : {Element::u64, Element::i64}) {
    EXPECT_THAT(refusal_of(labels(element, kLargest)),
                HasSubstr(fmt::format("the label of image 2 is {}, 0 to {} is wanted", kLargest, kLargest - 1)));
  }
  make(labels(Element::u64, 7));
  EXPECT_THAT(Dataset::open(comm(), path_).labels(), ElementsAre(0, 1, 7));
}

TEST_F(BareFileTest, NegativeLabelsAreRefused) {
  EXPECT_THAT(refusal_of([](h5::File& file) {
                add(file, "/images", Element::u8, {1, 2, 2, 1});
                h5::Array labels = file.create_array("/labels", Element::i8, std::vector<int64_t>{1});
                labels.write_rows(0, 1, std::vector{std::byte{0xff}});
              }),
              HasSubstr("the label of image 0 is -1"));
}

TEST_F(BareFileTest, AShardByItselfIsCheckedByItsOwnChecksums) {
  DatasetInfo info;
  const ImageFormat format{.height = 8, .width = 8, .channels = 1, .dtype = base::DType::u8};
  on_rank_0([&] { info = write_sample_set(folder_ / "set", format, true, {4}); });
  const Path shard = folder_ / "set" / shard_file_name(0, 1);
  EXPECT_EQ(values(Dataset::open(comm(), shard), 2, 1).size(), 64U);
  on_rank_0([&] { test::flip_bit(shard, static_cast<std::streamoff>(info.shards[0].header_size) + 130); });
  const Dataset set = Dataset::open(comm(), shard);
  EXPECT_THAT(refusal([&] { return values(set, 0, 4); }), HasSubstr("image 2 (number 2 of the dataset) is damaged"));
}

TEST_F(BareFileTest, AnArrayCalledChecksumsOfSomebodyElseIsIgnored) {
  make([](h5::File& file) {
    add(file, "/images", Element::u8, {2, 2, 2, 1});
    add(file, "/checksums", Element::u32, {2});
  });
  EXPECT_EQ(values(Dataset::open(comm(), path_), 0, 2).size(), 8U);
}

}  // namespace
}  // namespace ddpm::data
