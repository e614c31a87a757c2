#include "base/file_system.h"

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_error.h"
#include "base/sha256.h"
#include "support/forwarding_files.h"
#include "support/sticky_files.h"
#include "support/temporary_folder.h"

namespace {
int writes_of_nothing = 0;  // so many calls of write() from now on return 0
}

/// Calls the C library's write(), except for those calls.
extern "C" ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (writes_of_nothing > 0) {
    --writes_of_nothing;
    return 0;
  }
  return ::syscall(SYS_write, descriptor, bytes, size);
}

namespace ddpm::base {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class FileSystemTest : public testing::Test {
 protected:
  [[nodiscard]] std::string content(const Path& path) const { return files_->read(path, 1U << 20U); }
  void put(const Path& path, std::string_view text) const {
    const auto file = files_->create_exclusive(path);
    file->write(text);
    file->close();
  }

  test::TemporaryFolder own_;
  const Path& folder_ = own_.path();
  std::unique_ptr<FileSystem> files_ = posix_file_system();
};

template <typename Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const OutputError& error) {
    EXPECT_EQ(error.code(), ExitCode::output);
    return error.what();
  }
  return "accepted";
}

TEST_F(FileSystemTest, ExclusiveCreationRefusesAnExistingFile) {
  const Path path = folder_ / "shard";
  put(path, "first");
  EXPECT_EQ(refusal([&] { files_->create_exclusive(path); }), path.string() + ": cannot create: File exists");
  EXPECT_EQ(content(path), "first");
}

TEST_F(FileSystemTest, AppendingGoesOnAtTheEndAndAfterACut) {
  const Path path = folder_ / "log";
  put(path, "one\n");
  const auto file = files_->open_append(path);
  file->write(std::string_view("two\nthree\n"));
  file->truncate(8);
  file->write(std::string_view("four\n"));
  file->sync();
  file->close();
  EXPECT_EQ(content(path), "one\ntwo\nfour\n");
}

TEST_F(FileSystemTest, ACutFileGoesOnAtTheCut) {
  const Path path = folder_ / "new";
  const auto file = files_->create_exclusive(path);
  file->write(std::string_view("0123456789"));
  file->truncate(3);
  file->write(std::string_view("x"));
  file->close();
  EXPECT_EQ(content(path), "012x");
  EXPECT_EQ(files_->file_size(path), 4U);
}

TEST_F(FileSystemTest, AShortWriteIsAnErrorThatNamesTheFile) {
  const Path path = folder_ / "large";
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1000, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto file = files_->create_exclusive(path);
  const std::string what = refusal([&] { file->write(std::string(5000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(what, path.string() + ": cannot write: File too large");
  EXPECT_EQ(files_->file_size(path), 1000U);  // the first write was short, and was continued
}

TEST_F(FileSystemTest, AWriteOfNothingIsAnError) {
  const Path path = folder_ / "stuck";
  const auto file = files_->create_exclusive(path);
  writes_of_nothing = 1000;
  const std::string what = refusal([&] { file->write(std::string_view("text")); });
  const int left = std::exchange(writes_of_nothing, 0);
  EXPECT_EQ(what, path.string() + ": cannot write: Input/output error");
  EXPECT_EQ(left, 999);
}

TEST_F(FileSystemTest, DirectoriesListRenameAndRemove) {
  const Path run = folder_ / "a" / "b";
  files_->create_directories(run);
  files_->create_directories(run);
  files_->create_directory(run / "sub");
  EXPECT_THAT(refusal([&] { files_->create_directory(run / "sub"); }), HasSubstr("File exists"));
  put(run / "z", "");
  put(run / "B", "");
  put(run / "a10", "old");
  EXPECT_THAT(files_->list(run), ElementsAre("B", "a10", "sub", "z"));
  files_->rename(run / "z", run / "a10");
  EXPECT_EQ(content(run / "a10"), "");
  files_->remove(run / "B");
  EXPECT_FALSE(files_->exists(run / "B"));
  EXPECT_FALSE(files_->exists(run / "a10" / "below a file"));
  files_->sync_file(run / "a10");
  files_->sync_directory(run);
  files_->remove_all(folder_ / "a");
  files_->remove_all(folder_ / "a");
  EXPECT_FALSE(files_->exists(folder_ / "a"));
}

TEST_F(FileSystemTest, EveryErrorNamesItsPathAndReason) {
  const Path absent = folder_ / "absent";
  const std::string reason = ": No such file or directory";
  const auto expect = [&](const std::string& operation, const auto& work) {
    EXPECT_EQ(refusal(work), absent.string() + ": cannot " + operation + reason);
  };
  expect("open", [&] { (void)files_->read(absent, 10); });
  expect("get the size", [&] { (void)files_->file_size(absent); });
  expect("list", [&] { (void)files_->list(absent); });
  expect("remove", [&] { files_->remove(absent); });
  expect("open", [&] { files_->sync_file(absent); });
  expect("open", [&] { files_->sync_directory(absent); });
  expect("get the free space", [&] { (void)files_->free_bytes(absent); });
  expect("rename to " + (folder_ / "x").string(), [&] { files_->rename(absent, folder_ / "x"); });
  EXPECT_THAT(refusal([&] { files_->create_directory(absent / "deep"); }), HasSubstr((absent / "deep").string()));
  EXPECT_THAT(refusal([&] { files_->create_exclusive(absent / "deep"); }), HasSubstr((absent / "deep").string()));
  EXPECT_THAT(refusal([&] { (void)files_->read(folder_, 10); }), HasSubstr("Is a directory"));
}

TEST_F(FileSystemTest, ReadingIsLimited) {
  const Path path = folder_ / "text";
  put(path, std::string(200000, 'x'));
  EXPECT_EQ(files_->read(path, 200000).size(), 200000U);
  EXPECT_THAT(refusal([&] { (void)files_->read(path, 199999); }), HasSubstr("more than the 199999 bytes"));
}

TEST_F(FileSystemTest, FreeSpaceIsWhatTheSystemSays) {
  const uint64_t available = std::filesystem::space(folder_).available;
  EXPECT_NEAR(static_cast<double>(files_->free_bytes(folder_)), static_cast<double>(available), 1e9);
  EXPECT_GT(files_->free_bytes(folder_), 0U);
}

TEST_F(FileSystemTest, AtomicWritingReplacesAndLeavesNothingElse) {
  const Path path = folder_ / "LATEST";
  write_atomically(*files_, path, "step-1\n");
  write_atomically(*files_, path, "step-22\n");
  EXPECT_EQ(content(path), "step-22\n");
  EXPECT_THAT(files_->list(folder_), ElementsAre("LATEST"));
}

TEST_F(FileSystemTest, AFailedAtomicWriteKeepsTheOldTextAndCleansUp) {
  const Path directory_in_the_way = folder_ / "LATEST";
  files_->create_directory(directory_in_the_way);
  put(directory_in_the_way / "old", "kept");
  EXPECT_THAT(refusal([&] { write_atomically(*files_, directory_in_the_way, "new"); }), HasSubstr("cannot rename"));
  EXPECT_THAT(files_->list(folder_), ElementsAre("LATEST"));
  EXPECT_EQ(content(directory_in_the_way / "old"), "kept");
}

TEST_F(FileSystemTest, AStagedFolderAppearsWhenItIsPublishedAndElseNever) {
  {
    const StagedPath dropped(*files_, folder_ / "pictures");
    files_->create_directory(dropped.path());
    put(dropped.path() / "a", "half");
  }
  EXPECT_THAT(files_->list(folder_), ElementsAre());
  {
    StagedPath staged(*files_, folder_ / "pictures");
    files_->create_directory(staged.path());
    put(staged.path() / "a", "whole");
    EXPECT_FALSE(files_->exists(folder_ / "pictures"));
    staged.publish();
  }
  EXPECT_THAT(files_->list(folder_), ElementsAre("pictures"));
  EXPECT_EQ(content(folder_ / "pictures" / "a"), "whole");
}

TEST_F(FileSystemTest, AFolderIsReplacedAlsoWhereTheOldOneCannotBeRemoved) {
  test::StickyFiles files;
  const Path target = folder_ / "pictures";
  for (const char* text : {"first", "second"}) {
    StagedPath staged(files, target);
    files.create_directory(staged.path());
    put(staged.path() / "a", text);
    put(staged.path() / test::kStuck, "");
    staged.publish_over();
    EXPECT_EQ(content(target / "a"), text);
  }
  EXPECT_THAT(files.list(folder_), ElementsAre(StartsWith(".pictures.tmp-"), "pictures"));
  EXPECT_THAT(remove_leftovers(files, target), ElementsAre(HasSubstr("it sticks")));
  // What may be half removed does not get the name back.
  files.rename(target, folder_ / "moved away");
  EXPECT_THAT(remove_leftovers(files, target), ElementsAre(HasSubstr("it sticks")));
  EXPECT_FALSE(files.exists(target));
  files.let_go();
  EXPECT_THAT(remove_leftovers(files, target), IsEmpty());
  EXPECT_THAT(files.list(folder_), ElementsAre("moved away"));
}

TEST_F(FileSystemTest, WhatIsUnfinishedGoesWithAProcessThatEnds) {
  StagedPath half(*files_, folder_ / "pictures");
  files_->create_directory(half.path());
  put(half.path() / "a", "half");
  put(folder_ / "named", "half");
  const Unfinished named(*files_, folder_ / "named");
  StagedPath whole(*files_, folder_ / "whole");
  put(whole.path(), "whole");
  whole.publish();
  {
    put(folder_ / "given up", "kept");
    const Unfinished until_here(*files_, folder_ / "given up");
  }
  remove_unfinished();
  EXPECT_THAT(files_->list(folder_), ElementsAre("given up", "whole"));
}

/// A file system that does not answer until it is told to.
class HangingFiles : public test::ForwardingFiles {
 public:
  void remove_all(const Path& path) override {
    answers_.get_future().wait();
    test::ForwardingFiles::remove_all(path);
  }
  void answer() { answers_.set_value(); }

 private:
  std::promise<void> answers_;
};

TEST_F(FileSystemTest, AFileSystemThatHangsKeepsNoProcessFromItsEnd) {
  const Path half = folder_ / "half";
  put(half, "half");
  HangingFiles files;
  const Unfinished unfinished(files, half);
  remove_unfinished();  // comes back
  EXPECT_TRUE(files.exists(half));
  files.answer();
}

TEST_F(FileSystemTest, PlainPathsHaveTheNameThatTheySeemToHave) {
  EXPECT_EQ(plain_path("a/./b/"), "a/b");
  EXPECT_EQ(plain_path("/a/b/.."), "/a");
  EXPECT_EQ(parent_of("b"), ".");
}

TEST_F(FileSystemTest, APipeIsNeitherAppendedToNorMeasuredNorWaitedFor) {
  const Path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { files_->open_append(pipe); }), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal([&] { (void)files_->file_size(pipe); }), HasSubstr("not a regular file"));
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);  // with one, the open itself succeeds
  EXPECT_THAT(refusal([&] { files_->open_append(pipe); }), HasSubstr("not a regular file"));
  ::close(reader);
  EXPECT_THAT(refusal([&] { files_->sync_file(pipe); }), HasSubstr("sync"));
  EXPECT_THAT(refusal([&] { files_->open_append("/dev/null"); }), HasSubstr("not a regular file"));
}

TEST_F(FileSystemTest, WhatCannotBeReadNowIsToldFromWhatIsNotThere) {
  const Path missing = folder_ / "missing";
  for (const auto& work : std::vector<std::function<void()>>{
           [&] { (void)files_->read(missing, 1); }, [&] { (void)files_->file_size(missing); },
           [&] { (void)files_->read(folder_, 1); }, [&] { (void)files_->file_size(missing / "below"); }}) {
    try {
      work();
      ADD_FAILURE() << "read";
    } catch (const AccessError& error) {
      ADD_FAILURE() << error.what();
    } catch (const OutputError&) {
    }
  }
  put(folder_ / "file", "text");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_THROW((void)files_->read(folder_ / "file", 10), AccessError);
  EXPECT_THROW((void)files_->list(folder_), AccessError);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THROW((void)sha256_file("/proc/self/mem"), AccessError);  // address 0: EIO
}

TEST_F(FileSystemTest, APipeThatNobodyWritesToReadsAsEmpty) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(content(folder_ / "pipe"), "");
}

TEST_F(FileSystemTest, APipeIsReadToItsEndAsAShellPassesOne) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(::write(ends[1], "text", 4), 4);
    ::close(ends[1]);
  });
  EXPECT_EQ(content(fmt::format("/proc/self/fd/{}", ends[0])), "text");
  writer.join();
  ::close(ends[0]);
}

}  // namespace
}  // namespace ddpm::base
