// Files are read and examined while calls fail: passing failures are retried, lasting ones are the machine's error, and
// a file that cannot be examined is not taken for absent, short or empty.
#include "base/input_file.h"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/failing_calls.h"
#include "base/file_system.h"
#include "base/sha256.h"
#include "support/temporary_folder.h"

namespace ddpm::base {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

class InputFileTest : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(path_) << "0123456789"; }

  [[nodiscard]] std::string content() const {
    const InputFile file(path_);
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  }

  test::TemporaryFolder own_;
  const Path& folder_ = own_.path();
  const Path path_ = folder_ / "file";
};

TEST_F(InputFileTest, ReadsAnyPlace) {
  const InputFile file(path_);
  EXPECT_EQ(file.size(), 10U);
  std::string text(4, '\0');
  file.read(3, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "3456");
  EXPECT_EQ(file.read_up_to(8, std::as_writable_bytes(std::span(text))), 2U);
  EXPECT_EQ(file.read_up_to(20, std::as_writable_bytes(std::span(text))), 0U);
  EXPECT_THAT([&] { file.read(8, std::as_writable_bytes(std::span(text))); },
              ThrowsMessage<OutputError>(HasSubstr("file: ends at byte 10")));
}

TEST_F(InputFileTest, AnInterruptedCallIsAlwaysMadeAgain) {
  for (const char* function : {"open", "pread", "fstat"}) {
    const test::FailingCalls failing(function, EINTR, 1000);
    EXPECT_EQ(content(), "0123456789") << function;
    EXPECT_GT(failing.calls(), 1000) << function;
  }
  const test::FailingCalls failing("read", EINTR, 1000);
  EXPECT_EQ(posix_file_system()->read(path_, 10), "0123456789");
}

TEST_F(InputFileTest, AFailureThatPassesIsTriedAgain) {
  for (const int code : {EAGAIN, EMFILE, ENFILE, ENOMEM, ESTALE, ETIMEDOUT}) {
    for (const char* function : {"open", "pread", "fstat"}) {
      const test::FailingCalls failing(function, code, 1);
      EXPECT_EQ(content(), "0123456789") << function << ' ' << code;
    }
    {
      const test::FailingCalls failing("read", code, 1);
      EXPECT_EQ(posix_file_system()->read(path_, 10), "0123456789") << code;
    }
    {
      const test::FailingCalls failing("stat", code, 1);
      EXPECT_EQ(kind_of(path_), FileKind::regular) << code;
    }
    const test::FailingCalls failing("getdents64", code, 1, 1);
    EXPECT_THAT(folder_entries(folder_), SizeIs(1)) << code;
  }
}

TEST_F(InputFileTest, AFailureThatStaysIsTheMachines) {
  for (const char* function : {"open", "pread", "fstat"}) {
    const test::FailingCalls failing(function, EIO, 1000);
    EXPECT_THAT([&] { (void)content(); }, ThrowsMessage<AccessError>(HasSubstr("file: cannot "))) << function;
    EXPECT_EQ(failing.calls(), 1) << function;  // EIO is not retried
  }
  const auto start = std::chrono::steady_clock::now();
  const test::FailingCalls failing("open", EMFILE, 1000);
  EXPECT_THAT([&] { (void)sha256_file(path_); },
              ThrowsMessage<AccessError>(HasSubstr("file: cannot open: Too many open files")));
  EXPECT_EQ(failing.calls(), 6);
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST_F(InputFileTest, AForgottenFileIsOpenedAgainUnlessItHasChanged) {
  const InputFile file(path_);
  std::string text(10, '\0');
  {
    const test::FailingCalls failing("pread", ESTALE, 2);
    file.read(0, std::as_writable_bytes(std::span(text)));
    EXPECT_EQ(text, "0123456789");
  }
  std::ofstream(path_) << "another text";
  const test::FailingCalls failing("pread", ESTALE, 1);
  EXPECT_THAT([&] { file.read(0, std::as_writable_bytes(std::span(text))); },
              ThrowsMessage<AccessError>(HasSubstr("file: changed while it was read")));
}

TEST_F(InputFileTest, WhatCannotBeToldIsNotAbsent) {
  EXPECT_EQ(kind_of(folder_), FileKind::folder);
  EXPECT_EQ(kind_of(folder_ / "none"), FileKind::absent);
  EXPECT_EQ(kind_of(path_ / "below a file"), FileKind::absent);
  std::filesystem::create_symlink("circle", folder_ / "circle");
  EXPECT_EQ(kind_of(folder_ / "circle"), FileKind::absent);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of(folder_ / "pipe"), FileKind::other);
  EXPECT_THAT([&] { InputFile file(folder_ / "pipe"); }, ThrowsMessage<OutputError>(HasSubstr("not a regular file")));
  for (const int code : {EACCES, EIO}) {
    const test::FailingCalls failing("stat", code, 1000);
    EXPECT_THROW((void)kind_of(path_), AccessError) << code;
  }
}

TEST_F(InputFileTest, AListingThatFailsHalfwayIsNone) {
  for (const char* name : {"a", "b", "c"}) std::ofstream(folder_ / name) << name;
  std::filesystem::create_symlink("a", folder_ / "link");
  std::vector<std::string> names;
  for (const FolderEntry& entry : folder_entries(folder_)) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("a", "b", "c", "file", "link"));
  {
    const test::FailingCalls failing("getdents64", EIO, 1000, 1);
    EXPECT_THAT([&] { (void)folder_entries(folder_); },
                ThrowsMessage<AccessError>(HasSubstr("cannot list: Input/output error")));
    EXPECT_THROW((void)posix_file_system()->list(folder_), AccessError);
  }
  // The folder goes away while it is listed, which readdir() takes for its end.
  const test::FailingCalls failing("getdents64", ENOENT, 1000, 1);
  EXPECT_THAT([&] { (void)folder_entries(folder_); },
              ThrowsMessage<OutputError>(HasSubstr("cannot list: No such file")));
}

TEST_F(InputFileTest, ReadersMayHaveErrorsOfTheirOwn) {
  EXPECT_THAT([&] { read_as<DatasetError>([&] { return InputFile(folder_ / "none"); }); },
              ThrowsMessage<DatasetError>(HasSubstr("none: cannot open: No such file")));
}

}  // namespace
}  // namespace ddpm::base
