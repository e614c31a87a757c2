// IDX and CIFAR files, from their bytes to samples.
#include "data/prepare/records.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/prepare/cifar.h"
#include "data/prepare/idx.h"
#include "data/prepare/record_files.h"

namespace ddpm::data::prepare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class Records : public testing::Test {
 protected:
  [[nodiscard]] base::Path path(const std::string& name) const { return folder_.path() / name; }
  base::Path write(const std::string& name, const std::string& bytes) const {
    test::write_bytes(path(name), bytes);
    return path(name);
  }
  static std::unique_ptr<ImageSource> source_of(std::vector<RecordFile> files) {
    // Passes through the text, as the other ranks get it.
    return read_records(unpack_records(pack({"test", std::move(files), {}})));
  }
  static Image image_of(const Sample& sample) { return std::get<Image>(sample.image); }
  static Sample read(ImageSource& source, int64_t index, int channels) {
    std::vector<Skipped> skipped;
    auto sample = source.read(index, channels, skipped);
    EXPECT_THAT(skipped, IsEmpty());
    return std::move(sample).value();
  }
  static std::string pixels(const Image& image) { return {image.pixels.begin(), image.pixels.end()}; }
  /// Looking at these bytes, as images of IDX, must be refused with words that `text` is part of.
  void refuse_idx(const std::string& bytes, const std::string& text) const {
    const base::Path file = write("images-idx3-ubyte", bytes);
    EXPECT_THAT([&] { look_at_idx(file, std::nullopt, {}); },
                ThrowsMessage<base::DatasetError>(HasSubstr(file.string() + ": " + text)));
  }
  void refuse_cifar(const std::string& bytes, Cifar kind, const std::string& text) const {
    const base::Path file = write("batch.bin", bytes);
    EXPECT_THAT([&] { look_at_cifar(file, kind, true); },
                ThrowsMessage<base::DatasetError>(HasSubstr(file.string() + ": " + text)));
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Records, IdxImagesAndLabelsComeBackInAnyOrder) {
  constexpr std::size_t kImage = 5 * 7;
  const std::string data = test::noise(40 * kImage);
  write("images", test::idx_header({40, 5, 7}) + data);
  test::write_gzip(path("images.gz"), test::idx_header({40, 5, 7}) + data);
  const base::Path labels = write("labels", test::idx_header({40}) + test::labels(40, 6));
  for (const char* name : {"images", "images.gz"}) {
    const auto source = source_of({look_at_idx(path(name), labels, {})});
    EXPECT_EQ(source->size(), 40);
    EXPECT_EQ(source->classes(), 6);
    for (const int64_t i : {0, 1, 2, 39, 3, 17}) {
      const Sample sample = read(*source, i, 1);
      EXPECT_EQ(sample.label, i % 6);
      EXPECT_EQ(image_of(sample).height, 5);
      EXPECT_EQ(image_of(sample).width, 7);
      EXPECT_EQ(pixels(image_of(sample)), data.substr(static_cast<std::size_t>(i) * kImage, kImage))
          << name << " " << i;
    }
  }
}

TEST_F(Records, AFourthAxisIsTheChannels) {
  const std::string data = test::noise(std::size_t{2} * 4 * 3 * 3);
  const auto source = source_of({look_at_idx(write("x", test::idx_header({2, 4, 3, 3}) + data), std::nullopt, {})});
  EXPECT_FALSE(source->has_labels());
  EXPECT_EQ(source->classes(), 0);
  EXPECT_EQ(pixels(image_of(read(*source, 1, 3))), data.substr(36));
  refuse_idx(test::idx_header({2, 4, 3, 2}) + test::noise(48), "images of 2 channels, wanted 1 or 3");
}

TEST_F(Records, IdxMustFollowFromItsHeader) {
  refuse_idx("", "ends within bytes 0 to 4");
  refuse_idx(test::idx_header({1, 1, 1}).substr(0, 15), "ends within bytes 4 to 16");
  refuse_idx("PK\x03\x04 and more", "begins with bytes 50 4b 03, wanted 00 00 08");
  refuse_idx(test::idx_header({1, 1, 1}, 13) + "xxxx", "IDX of float32, wanted uint8");
  refuse_idx(test::idx_header({4}) + "xxxx", "IDX of 1 axes, wanted 3 or 4 for images");
  refuse_idx(test::idx_header({1, 1, 1, 1, 1}) + "x", "IDX of 5 axes");
  refuse_idx(test::idx_header({2, 3, 3}) + test::noise(17), "33 bytes, wanted 34");
  refuse_idx(test::idx_header({2, 3, 3}) + test::noise(19), "35 bytes, wanted 34");
  refuse_idx(test::idx_header({1, 0, 3}), "images of 0 x 3 pixels");
  refuse_idx(test::idx_header({1, 65536, 1}), "images of 65536 x 1 pixels, wanted 1 to 65535 a side");
  refuse_idx(test::idx_header({1, 65535, 65535}), "images of 65535 x 65535 pixels");
  // The most that a header can claim: refused by the size, which does not overflow.
  refuse_idx(test::idx_header({0xFFFFFFFF, 11585, 11585, 3}), "20 bytes, wanted 1729311350892544145");
  test::write_gzip(path("images.gz"), test::idx_header({0xFFFFFFFF, 11585, 11585, 3}));
  EXPECT_THROW(look_at_idx(path("images.gz"), std::nullopt, {}), base::DatasetError);
}

TEST_F(Records, IdxLabelsMustFitTheImages) {
  const base::Path images = write("images", test::idx_header({3, 1, 1}) + "abc");
  const auto refuse = [&](const std::string& bytes, const std::string& text) {
    const base::Path labels = write("labels", bytes);
    EXPECT_THAT([&] { look_at_idx(images, labels, {}); },
                ThrowsMessage<base::DatasetError>(HasSubstr(labels.string() + ": " + text)));
  };
  refuse(test::idx_header({4}) + "abcd", "4 labels, wanted 3 as " + images.string() + " has images");
  refuse(test::idx_header({3}) + "ab", "10 bytes, wanted 11");
  refuse(test::idx_header({3, 1, 1}) + "abc", "IDX of 3 axes, wanted 1 for labels");
  refuse(test::idx_header({3}, 12) + test::noise(12), "IDX of int32, wanted uint8");
}

TEST_F(Records, LabelsOfIdxLieBesideTheImages) {
  write("train-labels-idx1-ubyte.gz", "");
  EXPECT_EQ(idx_labels_of(path("train-images-idx3-ubyte.gz")), path("train-labels-idx1-ubyte.gz"));
  EXPECT_EQ(idx_labels_of(path("train-images-idx4-ubyte")), path("train-labels-idx1-ubyte.gz"));
  write("train-labels-idx1-ubyte", "");
  EXPECT_EQ(idx_labels_of(path("train-images-idx3-ubyte.gz")), path("train-labels-idx1-ubyte.gz"));
  EXPECT_EQ(idx_labels_of(path("train-images-idx3-ubyte")), path("train-labels-idx1-ubyte"));
  EXPECT_THAT([&] { idx_labels_of(path("t10k-images-idx3-ubyte")); },
              ThrowsMessage<base::DatasetError>(HasSubstr("its labels, t10k-labels-idx1-ubyte or "
                                                          "t10k-labels-idx1-ubyte.gz, are not beside it")));
  EXPECT_THAT([&] { idx_labels_of(path("data")); }, ThrowsMessage<base::DatasetError>(HasSubstr("no \"images\"")));
}

TEST_F(Records, CifarPlanesBecomePixels) {
  const std::string ten = test::cifar10(12, 3);
  const std::string hundred = test::cifar100(130, 4);
  const auto check = [&](const RecordFile& file, const std::string& bytes, std::size_t label_bytes, int64_t classes) {
    const auto source = source_of({file});
    EXPECT_EQ(source->classes(), classes);
    const std::size_t record = label_bytes + 3072;
    ASSERT_EQ(source->size(), std::ssize(bytes) / static_cast<int64_t>(record));
    for (int64_t i = source->size(); i-- > 0;) {
      const Sample sample = read(*source, i, 3);
      const std::string planes = bytes.substr(static_cast<std::size_t>(i) * record + label_bytes, 3072);
      EXPECT_EQ(sample.label, i % classes);
      for (std::size_t y = 0; y < 32; ++y) {
        for (std::size_t x = 0; x < 32; ++x) {
          for (std::size_t c = 0; c < 3; ++c) {
            ASSERT_EQ(image_of(sample).row(static_cast<int>(y))[3 * x + c],
                      static_cast<uint8_t>(planes[1024 * c + 32 * y + x]));
          }
        }
      }
    }
  };
  check(look_at_cifar(write("ten.bin", ten), Cifar::ten, true), ten, 1, 10);
  check(look_at_cifar(write("hundred.bin", hundred), Cifar::hundred, true), hundred, 2, 100);
}

TEST_F(Records, FilesFollowEachOther) {
  const std::string first = test::cifar10(3, 1);
  const std::string second = test::cifar10(4, 2);
  const auto source = source_of({look_at_cifar(write("1.bin", first), Cifar::ten, false),
                                 look_at_cifar(write("2.bin", second), Cifar::ten, false)});
  EXPECT_EQ(source->size(), 7);
  EXPECT_FALSE(source->has_labels());
  EXPECT_EQ(image_of(read(*source, 2, 3)).pixels.front(), static_cast<uint8_t>(first[2 * 3073 + 1]));
  EXPECT_EQ(image_of(read(*source, 3, 3)).pixels.front(), static_cast<uint8_t>(second[1]));
  EXPECT_EQ(image_of(read(*source, 6, 3)).pixels.front(), static_cast<uint8_t>(second[3 * 3073 + 1]));
}

TEST_F(Records, CifarMustBeWholeRecordsWithLabelsOfItsClasses) {
  refuse_cifar("", Cifar::ten, "0 bytes, wanted whole records of 3073 (CIFAR-10)");
  refuse_cifar(test::noise(3074), Cifar::ten, "3074 bytes, wanted whole records of 3073");
  std::string bytes = test::cifar10(5);
  bytes[3 * 3073] = 10;
  refuse_cifar(bytes, Cifar::ten, "image 3 has label 10, wanted 0 to 9 (CIFAR-10)");
  bytes = test::cifar100(5);
  bytes[4 * 3074 + 1] = 100;
  refuse_cifar(bytes, Cifar::hundred, "image 4 has label 100, wanted 0 to 99 (CIFAR-100)");
  bytes = test::cifar100(5);
  bytes[2 * 3074] = 20;
  refuse_cifar(bytes, Cifar::hundred, "image 2 has label 20, wanted 0 to 19 (CIFAR-100, coarse)");
  test::write_gzip(path("batch.bin.gz"), test::cifar10(5));
  EXPECT_THAT([&] { look_at_cifar(path("batch.bin.gz"), Cifar::ten, true); },
              ThrowsMessage<base::DatasetError>(HasSubstr("packed with gzip")));
}

TEST_F(Records, CifarIsToldByTheSizeOfItsRecords) {
  const auto kind = [&](std::size_t size) { return cifar_kind(PackedFile(write("x.bin", std::string(size, '\0')))); };
  EXPECT_EQ(kind(3073 * 4), Cifar::ten);
  EXPECT_EQ(kind(3074 * 4), Cifar::hundred);
  EXPECT_THAT([&] { kind(3073 * 3074); }, ThrowsMessage<base::DatasetError>(HasSubstr("say which with --format")));
  EXPECT_THAT([&] { kind(3075); }, ThrowsMessage<base::DatasetError>(HasSubstr("3075 bytes are not whole records")));
  EXPECT_THROW(kind(0), base::DatasetError);
}

TEST_F(Records, CifarClassNamesLieBesideTheFiles) {
  const base::Path folder = path("");
  EXPECT_THAT(cifar_class_names(folder, Cifar::ten), IsEmpty());
  write("batches.meta.txt", "a\nb\r\nc\nd d\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_THAT(cifar_class_names(folder, Cifar::ten), ElementsAre("a", "b", "c", "d d", "e", "f", "g", "h", "i", "j"));
  const auto refuse = [&](const std::string& text, const std::string& reason) {
    write("batches.meta.txt", text);
    EXPECT_THAT([&] { cifar_class_names(folder, Cifar::ten); },
                ThrowsMessage<base::DatasetError>(HasSubstr("batches.meta.txt: " + reason)));
  };
  refuse("a\nb\n", "2 names, wanted 10 (CIFAR-10)");
  refuse(std::string("a\0\n", 3), "has zero bytes");
  refuse(std::string(65537, 'a'), "65537 bytes, wanted a text of at most 65536");
}

TEST_F(Records, AFileThatChangesIsNotReadOn) {
  const base::Path file = write("x.bin", test::cifar10(4));
  const auto seen = look_at_cifar(file, Cifar::ten, true);
  write("x.bin", test::cifar10(5));
  const auto source = source_of({seen});
  EXPECT_THAT([&] { read(*source, 0, 3); },
              ThrowsMessage<base::DatasetError>(HasSubstr("x.bin: changed while the dataset was made")));
}

}  // namespace
}  // namespace ddpm::data::prepare
