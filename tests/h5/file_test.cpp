#include "h5/file.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace ddpm::h5 {
namespace {

using base::DatasetError;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class FileTest : public testing::Test {
 protected:
  /// A new file that base::FileSystem has created, as File::create wants it.
  Path fresh(const char* name) {
    const Path path = folder_.path() / name;
    files_->create_exclusive(path)->close();
    return path;
  }
  /// /images [rows, 5] of uint16, value = 5 · row + column.
  Path counting_file(const char* name, int64_t rows) {
    const Path path = fresh(name);
    File file = File::create(path, {});
    Array images = file.create_array("/images", Element::u16, std::vector<int64_t>{rows, 5});
    std::vector<uint16_t> values(static_cast<std::size_t>(rows) * 5);
    std::iota(values.begin(), values.end(), uint16_t{0});
    images.write_rows(0, rows, std::as_bytes(std::span(values)));
    images.close();
    file.close();
    return path;
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

template <typename Work>
std::string refusal(const Work& work) {
  try {
    static_cast<void>(work());
  } catch (const DatasetError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<uint16_t> read(const Array& data, int64_t first, int64_t n) {
  std::vector<uint16_t> values(static_cast<std::size_t>(n) * 5);
  data.read_rows(first, n, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST_F(FileTest, RowsComeBackAsWritten) {
  const File file = File::open(counting_file("a.h5", 7));
  const Array images = file.array("/images");
  EXPECT_THAT(images.shape(), ElementsAre(7, 5));
  EXPECT_EQ(images.element(), Element::u16);
  EXPECT_EQ(images.row_bytes(), 10U);
  EXPECT_THAT(read(images, 6, 1), ElementsAre(30, 31, 32, 33, 34));
  EXPECT_THAT(read(images, 1, 2), ElementsAre(5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  EXPECT_TRUE(read(images, 7, 0).empty());
}

std::string array_name(Element element) { return fmt::format("/{}", name_of(element)); }

TEST_F(FileTest, EveryElementTypeIsKnownAgain) {
  const Path path = fresh("types.h5");
  const std::vector<int64_t> shape = {3};
  File file = File::create(path, {});
  for (int e = 0; e < static_cast<int>(Element::other); ++e) {
    const auto element = static_cast<Element>(e);
    Array data = file.create_array(array_name(element), element, shape);
    EXPECT_EQ(data.row_bytes(), size_of(element));
  }
  file.close();
  const File again = File::open(path);
  for (int e = 0; e < static_cast<int>(Element::other); ++e) {
    const auto element = static_cast<Element>(e);
    EXPECT_EQ(again.array(array_name(element)).element(), element) << name_of(element);
  }
}

TEST_F(FileTest, IntegersOfAnyTypeAreReadAsInt64) {
  const File file = File::open(counting_file("a.h5", 2));
  std::vector<int64_t> values(5);
  file.array("/images").read_integers(1, 1, values);
  EXPECT_THAT(values, ElementsAre(5, 6, 7, 8, 9));
}

TEST_F(FileTest, LargeArraysAreContiguousAndAligned) {
  const Path path = fresh("a.h5");
  File file = File::create(path, {.alignment = 4096, .align_from = 4096});
  Array small = file.create_array("/labels", Element::i64, std::vector<int64_t>{3});
  Array large = file.create_array("/images", Element::u8, std::vector<int64_t>{5, 1000});
  ASSERT_TRUE(large.file_offset().has_value());
  EXPECT_EQ(*large.file_offset() % 4096, 0U);
  EXPECT_LT(small.file_offset().value(), large.file_offset().value());
  const uint64_t offset = large.file_offset().value();
  small.close();
  large.close();
  file.close();
  EXPECT_EQ(std::filesystem::file_size(path), offset + 5000);
}

TEST_F(FileTest, EqualContentsAreEqualBytesAtAnyTime) {
  const Path first = counting_file("a.h5", 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's time stamps count seconds
  EXPECT_EQ(test::read_text(first), test::read_text(counting_file("b.h5", 7)));
}

TEST_F(FileTest, AttributesComeBack) {
  const Path path = fresh("a.h5");
  {
    File file = File::create(path, {});
    Array data = file.create_array("/images", Element::u8, std::vector<int64_t>{1});
    data.set_attribute("layout", "NCHW");
  }
  const File file = File::open(path);
  const Array data = file.array("/images");
  EXPECT_EQ(data.attribute("layout"), "NCHW");
  EXPECT_EQ(data.attribute("other"), std::nullopt);
}

TEST_F(FileTest, ErrorsNameThePathAndHdf5sReason) {
  const Path absent = folder_.path() / "absent.h5";
  EXPECT_THAT(refusal([&] { return File::open(absent); }), StartsWith(absent.string() + ": cannot open: "));
  const Path text = folder_.path() / "text.h5";
  test::write_text(text, std::string(5000, 'x'));
  EXPECT_EQ(refusal([&] { return File::open(text); }), text.string() + ": cannot open: file signature not found");
}

TEST_F(FileTest, ATruncatedFileIsRefused) {
  const Path path = counting_file("a.h5", 1000);
  std::filesystem::resize_file(path, 9000);
  EXPECT_THAT(refusal([&] { return File::open(path); }), HasSubstr("truncated file"));
}

TEST_F(FileTest, MissingArraysAndGroupsAreRefusedByName) {
  const Path path = counting_file("a.h5", 1);
  const File file = File::open(path);
  EXPECT_EQ(refusal([&] { return file.array("/labels"); }), path.string() + ": there is no /labels");
  EXPECT_EQ(refusal([&] { return file.array("/a/b"); }), path.string() + ": there is no /a");
  EXPECT_THAT(refusal([&] { return file.array("images"); }), HasSubstr("absolute"));
  EXPECT_THAT(refusal([&] { return file.array("/images/"); }), HasSubstr("absolute"));
  EXPECT_TRUE(file.contains("/images"));
  EXPECT_FALSE(file.contains("/labels"));
  EXPECT_FALSE(file.contains("/a/b"));
}

TEST_F(FileTest, AFileIsNotClosedUnderItsArrays) {
  const Path path = fresh("a.h5");
  File file = File::create(path, {});
  Array data = file.create_array("/images", Element::u8, std::vector<int64_t>{1});
  EXPECT_THAT(refusal([&] { file.close(); }), StartsWith(path.string() + ": cannot close: "));
}

TEST_F(FileTest, UseOutsideTheContractIsABug) {
  const Path path = counting_file("a.h5", 7);
  const File file = File::open(path);
  Array images = file.array("/images");
  std::vector<std::byte> row(10);
  EXPECT_THROW(images.read_rows(7, 1, row), base::InternalError);
  EXPECT_THROW(images.read_rows(-1, 1, row), base::InternalError);
  EXPECT_THROW(images.read_rows(0, 2, row), base::InternalError);
  images.close();
  EXPECT_THROW(images.read_rows(0, 1, row), base::InternalError);
  EXPECT_THROW(static_cast<void>(File::create(folder_.path() / "not-there.h5", {})), base::InternalError);
}

TEST_F(FileTest, WritingToAReadOnlyFileFails) {
  const File file = File::open(counting_file("a.h5", 7));
  Array images = file.array("/images");
  EXPECT_THROW(images.write_rows(0, 1, std::vector<std::byte>(10)), DatasetError);
}

/// Wherever the disk turns out to be full, it is one error; HDF5 continues to work, also at the end of the process.
TEST_F(FileTest, AFullDiskIsAnErrorAndNoMore) {
  const std::string full = "No space left on device";
  for (const int64_t rows : {1, 1000000}) {  // kept back by HDF5 until the array is closed, and written at once
    EXPECT_THAT(refusal([&] {
                  File file = File::create("/dev/full", {});
                  Array data = file.create_array("/images", Element::u8, std::vector<int64_t>{rows});
                  data.write_rows(0, rows, std::vector<std::byte>(static_cast<std::size_t>(rows)));
                  data.close();
                  return 0;
                }),
                HasSubstr(full))
        << rows;
  }
  EXPECT_THAT(refusal([&] {
                File file = File::create("/dev/full", {});
                file.create_array("/images", Element::u8, std::vector<int64_t>{5}).close();
                file.close();
                return 0;
              }),
              HasSubstr(full));
  EXPECT_EQ(File::open(counting_file("a.h5", 7)).array("/images").rows(), 7);
}

TEST_F(FileTest, ThreadsMayReadAtTheSameTime) {
  const Path path = counting_file("a.h5", 1000);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, &path, t] {
      const File file = File::open(path);
      const Array images = file.array("/images");
      for (int64_t i = 0; i < 1000; ++i) {
        const int64_t row = (i * 7 + t * 131) % 1000;
        if (read(images, row, 1).front() != row * 5) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ddpm::h5
