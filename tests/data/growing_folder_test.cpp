// A dataset's folder is whole or absent, and what an earlier command finished of it is known again.
#include "data/growing_folder.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/lock_file.h"
#include "base/sha256.h"
#include "support/forwarding_files.h"
#include "support/temporary_folder.h"

namespace ddpm::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr NeededSpace kLittle = {.images = 4, .image_bytes = 10};

/// A disk that ends the process, as a kill would, in place of the call that gives the folder its name, or of the first
/// one that removes something after that.
class KillingFiles : public test::ForwardingFiles {
 public:
  struct Killed {};
  KillingFiles(base::Path output, bool named) : output_(std::move(output)), named_(named) {}
  void rename(const base::Path& from, const base::Path& to) override {
    if (!named_ && to == output_) throw Killed();
    ForwardingFiles::rename(from, to);
  }
  void remove_all(const base::Path& path) override {
    if (fs::exists(output_)) throw Killed();
    ForwardingFiles::remove_all(path);
  }

 private:
  base::Path output_;
  bool named_;
};

/// A disk on which nothing can be removed once `output` is there.
class KeepingFiles : public test::ForwardingFiles {
 public:
  explicit KeepingFiles(base::Path output) : output_(std::move(output)) {}
  void remove_all(const base::Path& path) override {
    if (fs::exists(output_)) throw base::OutputError("{}: cannot remove", path.string());
    ForwardingFiles::remove_all(path);
  }

 private:
  base::Path output_;
};

class GrowingFolderTest : public testing::Test {
 protected:
  [[nodiscard]] base::Path output() const { return folder_.path() / "set"; }
  [[nodiscard]] GrowingFolder place(int64_t shards = 2) { return {*files_, output(), shards}; }
  /// A shard whose file holds `text`, with its note.
  void finish(GrowingFolder& folder, int64_t index, const std::string& text) {
    test::write_text(folder.shard_file(index), text);
    folder.note(index, "made of this", base::sha256_file(folder.shard_file(index)), R"({"count": 3})");
  }
  static std::string refusal(GrowingFolder& folder, const NeededSpace& needed = kLittle) {
    try {
      folder.begin(needed);
    } catch (const base::OutputError& error) {
      return error.what();
    }
    return "begun";
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

TEST_F(GrowingFolderTest, AppearsUnderItsNameWithoutItsNotes) {
  GrowingFolder folder = place();
  folder.begin(kLittle);
  finish(folder, 0, "first");
  finish(folder, 1, "second");
  EXPECT_FALSE(fs::exists(output()));
  folder.publish();
  EXPECT_EQ(test::read_text(output() / "shard-00001-of-00002.h5"), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(output()), fs::directory_iterator()), 2);
  EXPECT_FALSE(fs::exists(folder.path()));
}

TEST_F(GrowingFolderTest, ALaterCommandKnowsWhatIsFinished) {
  {
    GrowingFolder earlier = place();
    earlier.begin(kLittle);
    finish(earlier, 1, "second");
    test::write_text(earlier.path() / "left over", "of something");
  }
  GrowingFolder folder = place();
  folder.begin(kLittle);
  EXPECT_FALSE(fs::exists(folder.path() / "left over"));
  EXPECT_EQ(folder.note_of(0, "made of this"), std::nullopt);
  EXPECT_EQ(folder.note_of(1, "made of that"), std::nullopt);
  const std::optional<base::Json> note = folder.note_of(1, "made of this");
  ASSERT_TRUE(note);
  EXPECT_EQ(note->at("count"), 3);
  test::write_text(folder.shard_file(1), "changed");
  EXPECT_EQ(folder.note_of(1, "made of this"), std::nullopt);
  finish(folder, 1, "second");
  folder.clear(1);
  EXPECT_FALSE(fs::exists(folder.shard_file(1)));
  EXPECT_EQ(folder.note_of(1, "made of this"), std::nullopt);
}

TEST_F(GrowingFolderTest, AKillJustBeforeItHasItsNameLosesNothing) {
  {
    KillingFiles killing(output(), /*named=*/false);
    GrowingFolder earlier(killing, output(), 2);
    earlier.begin(kLittle, "seed 0\n");
    finish(earlier, 0, "first");
    finish(earlier, 1, "second");
    test::write_text(earlier.path() / "dataset.json", "of both");
    EXPECT_THROW(earlier.publish(), KillingFiles::Killed);
  }
  EXPECT_FALSE(fs::exists(output()));
  {
    GrowingFolder other = place();
    EXPECT_THROW(other.begin(kLittle, "seed 1\n"), base::OutputError);
  }
  GrowingFolder folder = place();
  folder.begin(kLittle, "seed 0\n");
  EXPECT_TRUE(folder.note_of(0, "made of this"));
  EXPECT_TRUE(folder.note_of(1, "made of this"));
  folder.publish();
  EXPECT_EQ(GrowingFolder::made_by(*files_, output()), "seed 0\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(output()), fs::directory_iterator()), 3);
}

TEST_F(GrowingFolderTest, AKillJustAfterItHasItsNameLeavesAWholeFolder) {
  KillingFiles killing(output(), /*named=*/true);
  GrowingFolder folder(killing, output(), 2);
  folder.begin(kLittle, "seed 0\n");
  finish(folder, 0, "first");
  finish(folder, 1, "second");
  EXPECT_THROW(folder.publish(), KillingFiles::Killed);
  EXPECT_FALSE(fs::exists(folder.path()));
  EXPECT_EQ(test::read_text(output() / "shard-00001-of-00002.h5"), "second");
  EXPECT_EQ(GrowingFolder::made_by(*files_, output()), "seed 0\n");
  GrowingFolder::clear_notes(*files_, output());
  EXPECT_EQ(std::distance(fs::directory_iterator(output()), fs::directory_iterator()), 3);
}

TEST_F(GrowingFolderTest, NotesThatCannotBeRemovedDisturbNobody) {
  KeepingFiles keeping(output());
  GrowingFolder folder(keeping, output(), 1);
  folder.begin(kLittle, "seed 0\n");
  test::write_text(folder.shard_file(0), "first");
  folder.publish();
  EXPECT_EQ(test::read_text(output() / "shard-00000-of-00001.h5"), "first");
  EXPECT_TRUE(fs::exists(output() / "journal"));
  EXPECT_EQ(GrowingFolder::made_by(*files_, output()), "seed 0\n");
}

TEST_F(GrowingFolderTest, IsLockedByARegularFileWhichGoesWithTheLastRank) {
  const base::Path lock = folder_.path() / ".set.partial.lock";
  {
    // A lock on the folder itself would keep out processes of this node alone on NFS and Lustre.
    const base::LockFile other(*files_, lock, base::Hold::shared);
    GrowingFolder folder = place();
    EXPECT_THAT(refusal(folder), HasSubstr("another process is at work in this folder, and holds .set.partial.lock"));
  }
  std::optional<GrowingFolder> folder(std::in_place, *files_, output(), 2);
  EXPECT_EQ(refusal(*folder), "begun");
  std::optional<GrowingFolder> colleague(std::in_place, *files_, output(), 2);
  colleague->join();
  folder->publish();
  folder.reset();
  EXPECT_FALSE(base::LockFile(*files_, lock, base::Hold::alone).held()) << "another rank is at work";
  colleague.reset();
  EXPECT_THAT(files_->list(folder_.path()), testing::ElementsAre("set"));
}

TEST_F(GrowingFolderTest, AnotherNumberOfShardsBeginsAnew) {
  {
    GrowingFolder earlier = place(2);
    earlier.begin(kLittle);
    finish(earlier, 0, "first");
  }
  GrowingFolder folder = place(3);
  folder.begin(kLittle);
  EXPECT_FALSE(fs::exists(folder.path() / "shard-00000-of-00002.h5"));
}

TEST_F(GrowingFolderTest, AnotherCommandWithAnotherNumberOfShardsTakesNothingAway) {
  {
    GrowingFolder earlier = place();
    earlier.begin(kLittle, "samples 2\n");
    finish(earlier, 0, "first");
  }
  {
    GrowingFolder other = place(3);
    EXPECT_THROW(other.begin(kLittle, "samples 3\n"), base::OutputError);
  }
  GrowingFolder folder = place();
  folder.begin(kLittle, "samples 2\n");
  EXPECT_TRUE(folder.note_of(0, "made of this"));
}

/// A refusal shows from where on lines differ that agree for long.
TEST_F(GrowingFolderTest, WhatDiffersOfAnotherCommandIsShown) {
  const std::string alike(500, 'x');
  {
    GrowingFolder earlier = place();
    earlier.begin(kLittle, fmt::format("seed 0\ninputs {} dataset a1 b2\n", alike));
    finish(earlier, 0, "first");
  }
  const auto refused = [&](const std::string& made_by) {
    try {
      place().begin(kLittle, made_by);
    } catch (const base::OutputError& error) {
      return std::string(error.what());
    }
    return std::string("begun");
  };
  EXPECT_THAT(refused(fmt::format("seed 0\ninputs {} dataset a1 c3\n", alike)),
              AllOf(HasSubstr("\"inputs ...x"), HasSubstr("dataset a1 b2\", and this one has \"inputs ...x"),
                    HasSubstr("dataset a1 c3\"; wanted: the same command")));
  EXPECT_THAT(refused("seed 1\ninputs\n"), HasSubstr("by a command with \"seed 0\", and this one has \"seed 1\""));
}

TEST_F(GrowingFolderTest, ShardsMayLieInAFolderOfTheirOwn) {
  const std::vector<std::string> names = {"shard-00000-of-00001.h5", "validation/shard-00000-of-00001.h5"};
  {
    GrowingFolder earlier(*files_, output(), names);
    earlier.begin(kLittle);
    finish(earlier, 0, "of training");
    finish(earlier, 1, "of validation");
    test::write_text(earlier.path() / "validation" / "dataset.json", "left over");
  }
  GrowingFolder folder(*files_, output(), names);
  folder.begin(kLittle);
  EXPECT_FALSE(fs::exists(folder.path() / "validation" / "dataset.json"));
  EXPECT_TRUE(folder.note_of(0, "made of this"));
  EXPECT_TRUE(folder.note_of(1, "made of this"));
  folder.clear(1);
  EXPECT_TRUE(folder.note_of(0, "made of this"));
  EXPECT_EQ(folder.note_of(1, "made of this"), std::nullopt);
  finish(folder, 1, "of validation");
  folder.publish();
  EXPECT_EQ(test::read_text(output() / "shard-00000-of-00001.h5"), "of training");
  EXPECT_EQ(test::read_text(output() / "validation" / "shard-00000-of-00001.h5"), "of validation");
  EXPECT_EQ(std::distance(fs::directory_iterator(output()), fs::directory_iterator()), 2);
}

TEST_F(GrowingFolderTest, RefusesAnOutputThatExistsOneAtWorkAndTooLittleRoom) {
  GrowingFolder folder = place();
  EXPECT_THAT(refusal(folder, {.images = 1, .image_bytes = uint64_t{1} << 60}),
              HasSubstr("1 image of 1152921504606846976 bytes each need"));
  EXPECT_FALSE(fs::exists(folder.path()));
  EXPECT_EQ(refusal(folder), "begun");
  GrowingFolder other = place();
  EXPECT_THAT(refusal(other), HasSubstr("another process is at work"));
  GrowingFolder colleague = place();
  EXPECT_NO_THROW(colleague.join());  // another rank of the job
  folder.publish();
  GrowingFolder late = place();
  EXPECT_THAT(refusal(late), HasSubstr("set: exists already"));
}

}  // namespace
}  // namespace ddpm::data
