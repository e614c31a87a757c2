// What a second `append` and a killed one find.
#include "data/prepare/append.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "data/dataset.h"
#include "data/prepare/create_fixture.h"
#include "support/forwarding_files.h"

namespace ddpm::data::prepare {
namespace {

using testing::HasSubstr;

/// A disk on which the rename to `target` fails, if it is a file, or the removal of `target`, if it is a folder.
class StoppingFiles : public test::ForwardingFiles {
 public:
  explicit StoppingFiles(base::Path target) : target_(std::move(target)) {}
  void rename(const base::Path& from, const base::Path& to) override {
    if (to == target_ && fs::is_regular_file(from)) throw base::OutputError("{}: stopped here", target_.string());
    ForwardingFiles::rename(from, to);
  }
  void remove_all(const base::Path& path) override {
    if (path == target_ && exists(path)) throw base::OutputError("{}: stopped here", target_.string());
    ForwardingFiles::remove_all(path);
  }

 private:
  base::Path target_;
};

class Append : public Create {
 protected:
  AppendResult grow(base::FileSystem& files) {
    AppendOptions more;
    more.dataset = root_ / "set";
    more.source = options("set").source;
    more.seed = 7;
    more.crop = Crop::random;
    more.shards = 2;
    return append(test::world(), files, base::Logger(1, 2), more);
  }
  std::string refusal(base::FileSystem& files) {
    try {
      grow(files);
      return "";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      return error.what();
    }
  }
  [[nodiscard]] int64_t lines_of_skipped() const {
    const std::string text = test::read_bytes(root_ / "set" / "skipped.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  }
};

TEST_F(Append, ASecondOneIsRefusedWhileOneIsAtWork) {
  make(options("set"));
  const fs::path lock = root_ / "set" / ".dataset.json.lock";
  std::optional<base::FileLock> other;
  if (test::world().rank() == 0) {
    test::write_bytes(lock, "");
    other.emplace(lock, base::LockKind::flock);
  }
  EXPECT_THAT(refusal(*files_), HasSubstr("dataset.json: another process is writing it"));
  other.reset();
  EXPECT_EQ(grow(*files_).shards, 7);
  comm::barrier(test::world());
  EXPECT_FALSE(fs::exists(lock));
}

TEST_F(Append, AFailureThatSaysNothingOfTheImagesLeavesTheShardsToTheNextOne) {
  make(options("set"));
  {
    StoppingFiles failing(root_ / "set" / ".appended" / "dataset.json");
    EXPECT_THAT(refusal(failing), HasSubstr("stopped here"));
  }
  comm::barrier(test::world());
  const AppendResult grown = grow(*files_);
  EXPECT_EQ(grown.shards, 7);
  EXPECT_EQ(grown.added.reused_shards, 2);
  comm::barrier(test::world());
  for (const char* name : {".appended", "..appended.partial"}) EXPECT_FALSE(fs::exists(root_ / "set" / name));
}

// A kill before dataset.json is replaced, after it, and when all is done but for the removal of what is left over.
TEST_F(Append, WhatWasLeftOutIsListedOnceForEachTimeWheneverItIsKilled) {
  const int64_t skipped = make(options("set")).skipped;
  ASSERT_GT(skipped, 0);
  ASSERT_EQ(lines_of_skipped(), skipped);
  {
    StoppingFiles killing(root_ / "set" / "dataset.json");
    EXPECT_THAT(refusal(killing), HasSubstr("stopped here"));
  }
  comm::barrier(test::world());
  EXPECT_EQ(lines_of_skipped(), skipped);
  EXPECT_EQ(grow(*files_).shards, 7);
  comm::barrier(test::world());
  EXPECT_EQ(lines_of_skipped(), 2 * skipped);
  int64_t times = 2;
  for (const char* name : {"skipped.jsonl", ".appended"}) {
    StoppingFiles killing(root_ / "set" / name);
    EXPECT_THAT(refusal(killing), HasSubstr("stopped here"));  // its shards are listed
    grow(*files_);
    comm::barrier(test::world());
    times += 2;
    EXPECT_EQ(lines_of_skipped(), times * skipped) << name;
    EXPECT_FALSE(fs::exists(root_ / "set" / ".appended"));
  }
}

}  // namespace
}  // namespace ddpm::data::prepare
