#include "base/quiet_file.h"

#include <array>
#include <csignal>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/failing_calls.h"
#include "support/temporary_folder.h"

namespace ddpm::base {
namespace {

std::span<const std::byte> as_written(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(QuietFile, HoldsWhatWasWrittenWhereItWasWritten) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a";
  test::write_text(path, "something that was there before");
  QuietFile file(path);
  file.write(3, as_written("def"));
  file.write(0, as_written("ab"));
  EXPECT_EQ(file.size(), 6U);
  std::array<char, 8> read{};
  read.fill('x');
  file.read(1, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(std::string(read.data(), read.size()), std::string("b\0def\0\0\0", 8));
  file.resize(5);
  file.close();
  EXPECT_EQ(file.failure(), "");
  EXPECT_EQ(test::read_text(path), std::string("ab\0de", 5));
}

TEST(QuietFile, RemembersTheFirstFailureAndWritesNoMore) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a";
  test::write_text(path, "");
  QuietFile file(path);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 4, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  file.write(0, as_written("abcdef"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(file.failure(), "File too large");
  EXPECT_EQ(file.size(), 6U);
  file.write(0, as_written("xy"));
  file.resize(2);
  file.close();
  EXPECT_EQ(file.failure(), "File too large");
  EXPECT_EQ(test::read_text(path), "abcd");
}

TEST(QuietFile, AWriteThatWritesNothingIsAFailure) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a";
  test::write_text(path, "");
  QuietFile file(path);
  {
    const test::FailingCalls failing("pwrite", 0, 1);
    file.write(0, as_written("abcdef"));
  }
  EXPECT_EQ(file.failure(), "Input/output error");
  file.write(0, as_written("abcdef"));
  file.close();
  EXPECT_EQ(test::read_text(path), "");
}

TEST(QuietFile, IsNotMade) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(QuietFile(folder.path() / "absent"), OutputError);
}

}  // namespace
}  // namespace ddpm::base
