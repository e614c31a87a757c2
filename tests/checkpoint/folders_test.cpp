#include "checkpoint/folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace ddpm::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

TEST(StepFolder, NamesAreCanonical) {
  EXPECT_EQ(step_folder_name(1000), "step-00001000");
  EXPECT_EQ(step_folder_name(123456789012), "step-123456789012");
  EXPECT_EQ(parse_step_folder("step-00001000"), 1000);
  EXPECT_EQ(parse_step_folder("step-123456789012"), 123456789012);
  for (const char* name : {"step-1000", "step-000001000", "step-0000100x", "step--0001000", "step-", "STEP-00001000",
                           "step-99999999999999999999", ".tmp-step-00001000-ab"}) {
    EXPECT_EQ(parse_step_folder(name), std::nullopt) << name;
  }
}

TEST(ReadLatest, ReturnsTheNameWithoutTheEndOfItsLine) {
  const test::TemporaryFolder folder;
  const auto files = base::posix_file_system();
  EXPECT_EQ(read_latest(*files, folder.path()), std::nullopt);
  for (const char* text : {"step-00001000\n", "step-00001000"}) {
    test::write_text(folder.path() / "LATEST", text);
    EXPECT_EQ(read_latest(*files, folder.path()), "step-00001000");
  }
  test::write_text(folder.path() / "LATEST", "");
  EXPECT_EQ(read_latest(*files, folder.path()), "");
  test::write_text(folder.path() / "LATEST", std::string(5000, 'x'));
  EXPECT_THROW(read_latest(*files, folder.path()), base::OutputError);
}

TEST(StepFolder, IsFoundWithoutItsZeros) {
  const test::TemporaryFolder folder;
  const auto files = base::posix_file_system();
  for (const char* name : {"step-00001000", "step-20", "step-00000020"}) {
    std::filesystem::create_directory(folder.path() / name);
  }
  const auto meant = [&](const char* name) {
    return meant_step_folder(*files, folder.path() / name).filename().string();
  };
  EXPECT_EQ(meant("step-1000"), "step-00001000");
  EXPECT_EQ(meant("step-0000001000"), "step-00001000");
  EXPECT_EQ(meant("step-00001000"), "step-00001000");
  for (const char* name :
       {"step-20", "step-3", "step-", "step-1000x", "step--1000", "step-99999999999999999999", "1000"}) {
    EXPECT_EQ(meant(name), name);
  }
}

TEST(Candidates, AreNewestFirstAndADisplacedOneCountsWhereItsStepHasNoOther) {
  const test::TemporaryFolder folder;
  for (const char* name : {"step-00000100", "step-00000300", ".old-step-00000300-aa", ".old-step-00000200-bb",
                           ".tmp-step-00000400-cc", ".removed-step-00000050-dd", "other"}) {
    std::filesystem::create_directory(folder.path() / name);
  }
  const auto files = base::posix_file_system();
  EXPECT_THAT(candidate_folders(*files, folder.path()),
              ElementsAre("step-00000300", ".old-step-00000200-bb", "step-00000100"));
  EXPECT_THAT(candidate_folders(*files, folder.path() / "absent"), IsEmpty());
}

TEST(Sweep, RemovesLeftOversAndNothingElse) {
  const test::TemporaryFolder run;
  const base::Path checkpoints = run.path() / kCheckpointsName;
  for (const char* name : {"step-00000300", ".old-step-00000300-aa", ".old-step-00000200-bb", ".tmp-step-00000400-cc",
                           ".removed-step-00000050-dd", ".tmp-mine", "other"}) {
    std::filesystem::create_directories(checkpoints / name);
  }
  for (const char* name : {"LATEST", "LOCK", "config.toml", "metrics.jsonl", "starts.json"}) {
    test::write_text(base::temporary_beside(run.path() / name), "cut sho");
  }
  test::write_text(run.path() / ".LOCK.stale-0123456789abcdef", "{}");
  const std::vector<std::string> others = {".LOCK", ".config.toml.swp", ".samples.png.tmp-0123456789abcdef",
                                           ".tmp-mine", "config.toml.tmp-1"};
  for (const std::string& name : others) test::write_text(run.path() / name, "mine");
  test::write_text(run.path() / "LATEST", "step-00000300\n");
  const auto files = base::posix_file_system();
  sweep_leftovers(*files, run.path(), base::Logger(0, 1));
  EXPECT_TRUE(files->exists(run.path() / ".LOCK.stale-0123456789abcdef"));  // somebody may be taking the lock
  test::write_text(run.path() / "LOCK", "{}");
  sweep_leftovers(*files, run.path(), base::Logger(0, 1));
  EXPECT_THAT(files->list(checkpoints), ElementsAre(".tmp-mine", "other", "step-00000200", "step-00000300"));
  std::vector<std::string> kept = {"LATEST", "LOCK", "checkpoints"};
  kept.insert(kept.end(), others.begin(), others.end());
  EXPECT_THAT(files->list(run.path()), UnorderedElementsAreArray(kept));
}

}  // namespace
}  // namespace ddpm::checkpoint
