#include "base/disk_space.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace ddpm::base {
namespace {

TEST(DiskSpace, AsksTheNearestFolderThatExists) {
  const test::TemporaryFolder folder;
  const auto files = posix_file_system();
  const Path run = folder.path() / "runs" / "one";
  EXPECT_NO_THROW(expect_room(*files, run, 1000, "a checkpoint"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  try {
    expect_room(*files, run, files->free_bytes(folder.path()) + 1'000'000'000, "a checkpoint");
    ADD_FAILURE() << "there is room";
  } catch (const OutputError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(folder.path().string() + ": "));
    EXPECT_THAT(error.what(), testing::HasSubstr("a checkpoint takes "));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace ddpm::base
