// `create` as a whole: the same bytes from any number of ranks, nothing published that is not whole, resuming.
#include "data/prepare/create.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/prepare/folder_lock.h"
#include "data_prepare/test_files.h"
#include "support/mpi_test.h"

namespace ddpm::data::prepare {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// A folder that all ranks know, with a source in it: the golden files in three classes, good and bad.
class Create : public testing::Test {
 protected:
  void SetUp() override {
    if (test::world().rank() == 0) {
      own_ = std::make_unique<test::TemporaryFolder>();
      std::vector<fs::path> golden;
      for (const auto& entry : fs::directory_iterator(test::golden(""))) golden.push_back(entry.path());
      std::sort(golden.begin(), golden.end());
      for (std::size_t i = 0; i < golden.size(); ++i) {
        const fs::path folder = own_->path() / "source" / std::string(1, static_cast<char>('a' + i % 3));
        fs::create_directories(folder);
        fs::copy_file(golden[i], folder / golden[i].filename());
      }
    }
    root_ = comm::broadcast(test::world(), own_ ? own_->path().string() : "");
  }
  void TearDown() override { comm::barrier(test::world()); }

  [[nodiscard]] CreateOptions options(const std::string& name) const {
    CreateOptions o;
    o.source.paths = {root_ / "source"};
    o.output = root_ / name;
    o.fit = {16, Crop::random, 7};
    o.shards = 5;
    o.source.labels = Labels::folder;
    return o;
  }
  CreateResult make(const CreateOptions& o, comm::Communicator& comm = test::world()) {
    return create(comm, *files_, base::Logger(1, 2), o);  // a logger that does not speak
  }
  /// Name and bytes of every file of a dataset.
  [[nodiscard]] std::map<std::string, std::string> contents(const std::string& name) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(root_ / name)) {
      all[entry.path().filename().string()] = test::read_bytes(entry.path());
    }
    return all;
  }

  std::unique_ptr<test::TemporaryFolder> own_;  // of rank 0
  fs::path root_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

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
    other = std::make_unique<FolderLock>(partial, FolderLock::Kind::shared);
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
  EXPECT_EQ(code([](CreateOptions& o) { o.fit.size = 0; }), base::ExitCode::usage);
  EXPECT_EQ(code([](CreateOptions& o) { o.channels = 4; }), base::ExitCode::usage);
  EXPECT_EQ(code([](CreateOptions& o) { o.shards = 0; }), base::ExitCode::usage);
  EXPECT_EQ(code([](CreateOptions& o) { o.output = ".."; }), base::ExitCode::usage);
  EXPECT_FALSE(fs::exists(root_ / "set"));
}

/// Fails the writing of the journal entry of one shard, as a full disk or a crash would; may say how much is left.
class FailingFiles : public base::FileSystem {
 public:
  FailingFiles(base::FileSystem& files, std::string name, std::optional<uint64_t> free_bytes = std::nullopt)
      : files_(files), name_(std::move(name)), free_bytes_(free_bytes) {}
  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override {
    if (path.string().find(name_) != std::string::npos) throw base::OutputError("{}: no space left", path.string());
    return files_.create_exclusive(path);
  }
  std::unique_ptr<base::WritableFile> open_append(const base::Path& path) override { return files_.open_append(path); }
  void sync_file(const base::Path& path) override { files_.sync_file(path); }
  void sync_directory(const base::Path& path) override { files_.sync_directory(path); }
  void create_directory(const base::Path& path) override { files_.create_directory(path); }
  void create_directories(const base::Path& path) override { files_.create_directories(path); }
  void rename(const base::Path& from, const base::Path& to) override { files_.rename(from, to); }
  void remove(const base::Path& path) override { files_.remove(path); }
  void remove_all(const base::Path& path) override { files_.remove_all(path); }
  [[nodiscard]] bool exists(const base::Path& path) const override { return files_.exists(path); }
  [[nodiscard]] std::string read(const base::Path& path, uint64_t max) const override { return files_.read(path, max); }
  [[nodiscard]] uint64_t file_size(const base::Path& path) const override { return files_.file_size(path); }
  [[nodiscard]] std::vector<std::string> list(const base::Path& path) const override { return files_.list(path); }
  [[nodiscard]] uint64_t free_bytes(const base::Path& path) const override {
    return free_bytes_ ? *free_bytes_ : files_.free_bytes(path);
  }

 private:
  base::FileSystem& files_;
  std::string name_;
  std::optional<uint64_t> free_bytes_;
};

class Resume : public Create {
 protected:
  void SetUp() override {
    Create::SetUp();
    make(options("wanted"));
  }
  /// A create that fails at the last shard, on whichever rank makes it.
  void fail(const CreateOptions& o) {
    FailingFiles failing(*files_, "shard-00004-of-00005.h5.json");
    try {
      create(test::world(), failing, base::Logger(1, 2), o);
      ADD_FAILURE() << "was made";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), HasSubstr("no space left"));
    }
    EXPECT_FALSE(fs::exists(o.output));
    comm::barrier(test::world());
  }
};

TEST_F(Resume, WithoutSpaceNothingIsBegunAndWhatWasDoneIsKept) {
  const auto refused = [&](const std::string& name) {
    FailingFiles full(*files_, "never", 1000);
    try {
      create(test::world(), full, base::Logger(1, 2), options(name));
      ADD_FAILURE() << "was made";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), HasSubstr("the file system has 1000 left"));
    }
    comm::barrier(test::world());
  };
  refused("new");
  EXPECT_FALSE(fs::exists(root_ / ".new.partial"));
  if (test::world().rank() == 0) fs::create_directories(root_ / ".begun.partial" / "journal");
  comm::barrier(test::world());
  refused("begun");
  EXPECT_TRUE(fs::exists(root_ / ".begun.partial"));
}

TEST_F(Resume, TakesOverFinishedShardsAndGivesTheSameBytes) {
  fail(options("set"));
  const CreateResult result = make(options("set"));
  EXPECT_EQ(result.reused_shards, 4);
  EXPECT_EQ(contents("set"), contents("wanted"));
  EXPECT_FALSE(fs::exists(root_ / ".set.partial"));
}

TEST_F(Resume, DamagedOrHalfWrittenShardsAreMadeAnew) {
  fail(options("set"));
  if (test::world().rank() == 0) {
    const fs::path partial = root_ / ".set.partial";
    std::string shard = test::read_bytes(partial / "shard-00001-of-00005.h5");
    shard.back() = static_cast<char>(shard.back() ^ 1);
    test::write_bytes(partial / "shard-00001-of-00005.h5", shard);
    test::write_bytes(partial / "journal" / "shard-00002-of-00005.h5.json", "{\"fingerprint\": ");
    test::write_bytes(partial / "shard-00000-of-00099.h5", "of another create");
  }
  comm::barrier(test::world());
  EXPECT_EQ(make(options("set")).reused_shards, 2);
  EXPECT_EQ(contents("set"), contents("wanted"));
}

TEST_F(Resume, OtherOptionsTakeNothingOver) {
  fail(options("set"));
  CreateOptions other = options("set");
  other.fit.seed = 8;
  EXPECT_EQ(make(other).reused_shards, 0);
  other.output = root_ / "fresh";
  make(other);
  EXPECT_EQ(contents("set"), contents("fresh"));
}

TEST_F(Resume, AChangedSourceFileIsReadAgain) {
  const auto write_first = [&](const std::string& bytes) {
    if (test::world().rank() == 0) test::write_bytes(root_ / "source" / "a" / "0.png", bytes);  // in the first shard
    comm::barrier(test::world());
  };
  write_first("not yet an image");
  fail(options("set"));
  write_first(test::read_bytes(test::golden("rgb-8.png")));
  EXPECT_EQ(make(options("set")).reused_shards, 3);
  make(options("fresh"));
  EXPECT_EQ(contents("set"), contents("fresh"));
}

}  // namespace
}  // namespace ddpm::data::prepare
