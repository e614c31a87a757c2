// A picture is left out for what it holds, and never because it could not be read.
#include <cerrno>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file_error.h"
#include "data/prepare/folder.h"
#include "data/prepare/test_files.h"
#include "support/forwarding_files.h"

namespace ddpm::data::prepare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

/// A disk whose files are read by `reading`.
class ReadingDisk : public test::ForwardingFiles {
 public:
  using Reading = std::function<std::string(const base::Path&)>;
  explicit ReadingDisk(Reading reading) : reading_(std::move(reading)) {}
  [[nodiscard]] std::string read(const base::Path& path, uint64_t) const override { return reading_(path); }

 private:
  Reading reading_;
};

class FolderOfPictures : public testing::Test {
 protected:
  void SetUp() override { test::write_bytes(picture_, test::read_bytes(test::golden("rgb-8.png"))); }

  /// Reads the one picture.
  bool read(const base::FileSystem& files, const PictureLimits& limits = {}) {
    const auto source = read_folder(files, folder_.path(), list_folder(files, folder_.path()), false, limits);
    return source->read(0, 3, skipped_).has_value();
  }

  test::TemporaryFolder folder_;
  const base::Path picture_ = folder_.path() / "picture.png";
  std::vector<Skipped> skipped_;
};

TEST_F(FolderOfPictures, AnErrorOfTheMachineEndsTheReading) {
  const std::vector<std::pair<std::string, ReadingDisk::Reading>> cases = {
      {"cannot open: Too many open files",
       [](const base::Path& path) -> std::string { base::throw_file_error(path, "open", EMFILE); }},
      {"cannot read: Input/output error",
       [](const base::Path& path) -> std::string { base::throw_file_error(path, "read", EIO); }},
      {"cannot open: Permission denied",
       [](const base::Path& path) -> std::string { base::throw_file_error(path, "open", EACCES); }},
      {"cannot open: No such file",
       [](const base::Path& path) -> std::string { base::throw_file_error(path, "open", ENOENT); }},
      {"not enough memory", [](const base::Path&) -> std::string { throw std::bad_alloc(); }}};
  for (const auto& [reason, reading] : cases) {
    const ReadingDisk disk(reading);
    EXPECT_THAT([&] { read(disk); }, ThrowsMessage<base::DatasetError>(AllOf(
                                         HasSubstr(picture_.string()), HasSubstr(reason), HasSubstr("same command"))));
    EXPECT_THAT(skipped_, IsEmpty());
  }
}

TEST_F(FolderOfPictures, WhatItHoldsMayLeaveItOut) {
  const auto files = base::posix_file_system();
  EXPECT_TRUE(read(*files));
  EXPECT_FALSE(read(*files, {.decode = {}, .max_file_bytes = 10}));
  EXPECT_THAT(skipped_, ElementsAre(FieldsAre("picture.png", "more than 10 bytes")));
  skipped_.clear();
  EXPECT_FALSE(read(*files, {.decode = {.max_pixels = 1}}));
  EXPECT_THAT(skipped_, ElementsAre(FieldsAre("picture.png", HasSubstr("more than the limit"))));
  skipped_.clear();
  test::write_bytes(picture_, "no picture");
  EXPECT_FALSE(read(*files));
  EXPECT_THAT(skipped_, ElementsAre(FieldsAre("picture.png", HasSubstr("neither PNG, JPEG"))));
}

TEST_F(FolderOfPictures, OneThatVanishesIsMissed) {
  const auto files = base::posix_file_system();
  const auto source = read_folder(*files, folder_.path(), list_folder(*files, folder_.path()), false, {});
  std::filesystem::remove(picture_);
  EXPECT_THAT(
      [&] {
        (void)source->look_at({0, 1});
      },
      ThrowsMessage<base::DatasetError>(HasSubstr("picture.png: is gone")));
  EXPECT_THAT([&] { (void)source->read(0, 3, skipped_); },
              ThrowsMessage<base::DatasetError>(HasSubstr("picture.png: cannot open: No such file")));
  EXPECT_THAT(skipped_, IsEmpty());
}

}  // namespace
}  // namespace ddpm::data::prepare
