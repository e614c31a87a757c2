// `create` that fails and is repeated takes over what was finished of the source, and nothing else.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "data/prepare/create.h"
#include "data/prepare/create_fixture.h"
#include "data/prepare/record_files.h"
#include "support/forwarding_files.h"

namespace ddpm::data::prepare {
namespace {

using testing::HasSubstr;

/// Fails the writing of the journal entry of one shard, as a full disk or a crash would; may say how much is left.
class FailingFiles : public test::ForwardingFiles {
 public:
  explicit FailingFiles(std::string name, std::optional<uint64_t> free_bytes = std::nullopt)
      : name_(std::move(name)), free_bytes_(free_bytes) {}
  std::unique_ptr<base::WritableFile> create_exclusive(const base::Path& path) override {
    if (path.string().find(name_) != std::string::npos) throw base::OutputError("{}: no space left", path.string());
    return ForwardingFiles::create_exclusive(path);
  }
  [[nodiscard]] uint64_t free_bytes(const base::Path& path) const override {
    return free_bytes_ ? *free_bytes_ : ForwardingFiles::free_bytes(path);
  }

 private:
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
    FailingFiles failing("shard-00004-of-00005.h5.json");
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
    FailingFiles full("never", 1000);
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

/// This test resumes from an IDX file with labels beside it.
class ResumeOfRecords : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    write(1);
  }
  void write(uint32_t seed) {
    if (test::world().rank() == 0) {
      const std::string pixels = test::noise(std::size_t{50} * 9 * 12, seed);
      test::write_gzip(root_ / "idx" / "images.gz", test::idx_header({50, 9, 12}) + pixels);
      test::write_bytes(root_ / "idx" / "labels", test::idx_header({50}) + test::labels(50, 7));
    }
    comm::barrier(test::world());
  }
  [[nodiscard]] CreateOptions records(const std::string& name) const {
    CreateOptions o = options(name);
    o.source.paths = {root_ / "idx" / "images.gz"};
    o.source.labels = Labels::kept;
    return o;
  }
};

TEST_F(ResumeOfRecords, TakesOverFinishedShardsAndGivesTheSameBytes) {
  fail(records("set"));
  EXPECT_EQ(make(records("set")).reused_shards, 4);
  const auto alone = test::world().split(test::world().rank(), 0);
  const std::string name = "alone-" + std::to_string(test::world().rank());
  EXPECT_EQ(make(records(name), *alone).classes, 7);
  EXPECT_EQ(contents("set"), contents(name));
}

TEST_F(ResumeOfRecords, OfAnotherFileNothingIsTakenOver) {
  fail(records("set"));
  write(2);
  EXPECT_EQ(make(records("set")).reused_shards, 0);
  make(records("fresh"));
  EXPECT_EQ(contents("set"), contents("fresh"));
}

}  // namespace
}  // namespace ddpm::data::prepare
