// `create` as a whole writes equal bytes on any number of ranks, and publishes nothing incomplete.
#include "data/prepare/create.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/folder_lock.h"
#include "data/prepare/create_fixture.h"

namespace ddpm::data::prepare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Create, TheBytesDoNotDependOnTheNumberOfRanks) {
  const CreateResult together = make(options("together"));
  const auto alone = test::world().split(test::world().rank(), 0);
  const std::string name = "alone-" + std::to_string(test::world().rank());
  make(options(name), *alone);
  EXPECT_EQ(contents(name), contents("together"));
  EXPECT_EQ(together.shards, 5);
  EXPECT_EQ(together.classes, 3);
  const auto cases = base::parse_json(test::read_bytes(test::golden("cases.json")));
  EXPECT_EQ(together.images, std::ssize(cases.at("good")));
  EXPECT_EQ(together.skipped, std::ssize(cases.at("bad")));
}

TEST_F(Create, TheReaderGetsWhatWasWritten) {
  const CreateResult result = make(options("set"));
  auto dataset = Dataset::open(test::world(), root_ / "set");
  EXPECT_EQ(dataset.size(), result.images);
  EXPECT_EQ(dataset.image(), (ImageFormat{16, 16, 3, base::DType::u8}));
  EXPECT_THAT(dataset.info().class_names, ElementsAre("a", "b", "c"));
  EXPECT_TRUE(std::is_sorted(dataset.labels().begin(), dataset.labels().end()));  // as the paths are
  std::vector<std::byte> all(static_cast<std::size_t>(dataset.size()) * dataset.image().bytes());
  EXPECT_NO_THROW(dataset.read_block(0, dataset.size(), all));
  dataset.close(test::world());
}

TEST_F(Create, WhatWasLeftOutIsListedWithItsReason) {
  const CreateResult result = make(options("set"));
  const std::string text = test::read_bytes(root_ / "set" / "skipped.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), result.skipped);
  EXPECT_THAT(text, HasSubstr("/bad-bomb.png\",\"reason\":\"PNG: 20000 x 20000 pixels are more than the limit"));
  EXPECT_THAT(text, HasSubstr("/bad-empty.png\",\"reason\":\"the file is empty\""));
}

TEST_F(Create, AnExistingOutputIsRefusedAndLeftAlone) {
  if (test::world().rank() == 0) test::write_bytes(root_ / "set" / "mine.txt", "mine");
  comm::barrier(test::world());
  try {
    make(options("set"));
    ADD_FAILURE() << "was made";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_THAT(error.what(), HasSubstr("exists already"));
  }
  EXPECT_EQ(contents("set"), (std::map<std::string, std::string>{{"mine.txt", "mine"}}));
}

TEST_F(Create, NoUsableImageIsADatasetErrorAndLeavesNothing) {
  if (test::world().rank() == 0) {
    for (const char* name : {"1.png", "2.jpg", "3.png"}) test::write_bytes(root_ / "bad" / name, "not an image");
  }
  comm::barrier(test::world());
  for (const char* source : {"bad", "absent"}) {
    CreateOptions o = options("set");
    o.source.paths = {root_ / source};
    try {
      make(o);
      ADD_FAILURE() << "was made";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::dataset);
      EXPECT_THAT(error.what(), HasSubstr((root_ / source).string()));
    }
    EXPECT_FALSE(fs::exists(root_ / "set"));
    EXPECT_FALSE(fs::exists(root_ / ".set.partial"));
  }
}

TEST_F(Create, ASecondCreateOfTheSameOutputIsRefusedWhileOneIsAtWork) {
  const fs::path partial = root_ / ".set.partial";
  std::unique_ptr<FolderLock> other;
  if (test::world().rank() == 0) {
    fs::create_directories(partial);
    other = std::make_unique<FolderLock>(*files_, partial, base::Hold::shared);
  }
  try {
    make(options("set"));
    ADD_FAILURE() << "was made";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_THAT(error.what(), HasSubstr("at work"));
  }
  EXPECT_FALSE(fs::exists(root_ / "set"));
  other.reset();
  make(options("set"));
  EXPECT_TRUE(fs::exists(root_ / "set"));
}

TEST_F(Create, OptionsOutOfRangeAreUsageErrors) {
  const auto code = [&](const std::function<void(CreateOptions&)>& change) {
    CreateOptions o = options("set");
    change(o);
    try {
      make(o);
    } catch (const base::Error& error) {
      return error.code();
    }
    return base::ExitCode::done;
  };
  EXPECT_EQ(code([](CreateOptions& o) { o.fit.sides.width = 0; }), base::ExitCode::usage);
  EXPECT_EQ(code([](CreateOptions& o) { o.channels = 4; }), base::ExitCode::usage);
  EXPECT_EQ(code([](CreateOptions& o) { o.shards = 0; }), base::ExitCode::usage);
  EXPECT_EQ(code([](CreateOptions& o) { o.output = ".."; }), base::ExitCode::usage);
  EXPECT_FALSE(fs::exists(root_ / "set"));
}

}  // namespace
}  // namespace ddpm::data::prepare
