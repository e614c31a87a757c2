#include "data/prepare/folder.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/prepare/test_files.h"

namespace ddpm::data::prepare {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::FieldsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class Folder : public testing::Test {
 protected:
  void add(const std::string& name) { test::write_bytes(root() / name, "x"); }
  [[nodiscard]] const fs::path& root() const { return folder_.path(); }

  const std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Folder, ListsImagesAtAnyDepthInBytewiseOrder) {
  for (const char* name : {"b/2.png", "b/10.png", "a/x/y/z.jpeg", "a-b/1.JPG", "a/1.PnG", "Z.png", "\xC3\xA9/1.png"}) {
    add(name);
  }
  const FolderListing listing = list_folder(*files_, root());
  EXPECT_THAT(listing.images,
              ElementsAre("Z.png", "a-b/1.JPG", "a/1.PnG", "a/x/y/z.jpeg", "b/10.png", "b/2.png", "\xC3\xA9/1.png"));
  EXPECT_THAT(listing.skipped, IsEmpty());
}

TEST_F(Folder, ClassesAreTopLevelFoldersInBytewiseOrder) {
  for (const char* name : {"b/1.png", "a-b/1.png", "a/sub/1.png", "B/1.png", "1.png"}) add(name);
  fs::create_directories(root() / "empty");
  const FolderListing listing = list_folder(*files_, root());
  EXPECT_THAT(listing.class_names, ElementsAre("B", "a", "a-b", "b"));
  EXPECT_EQ(listing.class_of("a/sub/1.png"), 1);
  EXPECT_EQ(listing.class_of("a-b/1.png"), 2);
  EXPECT_EQ(listing.class_of("1.png"), -1);
}

TEST_F(Folder, OtherFilesAreCountedAndHiddenOnesPassedOver) {
  for (const char* name : {"1.png", "notes.txt", "png", "x.png.bak", ".hidden.png", ".git/1.png"}) add(name);
  const FolderListing listing = list_folder(*files_, root());
  EXPECT_THAT(listing.images, ElementsAre("1.png"));
  EXPECT_THAT(listing.other_files, UnorderedElementsAre(Pair("", 1), Pair(".bak", 1), Pair(".txt", 1)));
  EXPECT_THAT(listing.skipped, IsEmpty());
}

TEST_F(Folder, PicturesOfOtherFormatsAreNamed) {
  for (const char* name : {"1.png", "a/2.WebP", "3.tiff", "4.npy", "5.txt", "a/6.Gif"}) add(name);
  const FolderListing listing = list_folder(*files_, root());
  EXPECT_THAT(listing.images, ElementsAre("1.png", "3.tiff", "a/2.WebP"));
  EXPECT_EQ(total(listing.other_files), 3);
  EXPECT_THAT(listing.skipped,
              UnorderedElementsAre(FieldsAre("a/6.Gif", ".gif files are not read, PNG, JPEG, WebP and TIFF are"),
                                   Field(&Skipped::path, "4.npy")));
}

TEST_F(Folder, LinksAreFollowedAndLoopsAreNot) {
  add("a/1.png");
  fs::create_directory_symlink(root() / "a", root() / "b");
  fs::create_directory_symlink(root(), root() / "a" / "loop");
  fs::create_symlink("nowhere.png", root() / "dangling.png");
  fs::create_symlink("/nowhere/class", root() / "class");  // a folder of pictures may have been there
  ASSERT_EQ(::mkfifo((root() / "pipe.png").c_str(), 0600), 0);
  const FolderListing listing = list_folder(*files_, root());
  EXPECT_THAT(listing.images, ElementsAre("a/1.png", "b/1.png"));
  EXPECT_THAT(listing.skipped,
              UnorderedElementsAre(Field(&Skipped::path, "a/loop"), Field(&Skipped::path, "b/loop"),
                                   Field(&Skipped::path, "class"), Field(&Skipped::path, "dangling.png"),
                                   Field(&Skipped::path, "pipe.png")));
  EXPECT_THAT(listing.skipped, Contains(FieldsAre("dangling.png", "a link that leads nowhere")));
  EXPECT_THAT(listing.skipped, Contains(FieldsAre("pipe.png", "not a regular file")));
}

TEST_F(Folder, PackedListingsComeBackWhole) {
  for (const char* name : {"b/1.png", "a/new\nline.png", "x.txt"}) add(name);
  fs::create_symlink("nowhere", root() / "gone.jpg");
  const FolderListing listing = list_folder(*files_, root());
  const FolderListing back = unpack_listing(pack(listing));
  EXPECT_EQ(back.images, listing.images);
  EXPECT_EQ(back.class_names, listing.class_names);
  EXPECT_EQ(back.other_files, listing.other_files);
  ASSERT_EQ(back.skipped.size(), 1U);
  EXPECT_EQ(back.skipped[0].path, "gone.jpg");
  EXPECT_EQ(back.skipped[0].reason, listing.skipped[0].reason);
}

TEST_F(Folder, ASourceThatIsNoFolderIsADatasetError) {
  add("file");
  EXPECT_THROW(list_folder(*files_, root() / "file"), base::DatasetError);
  EXPECT_THROW(list_folder(*files_, root() / "absent"), base::DatasetError);
}

}  // namespace
}  // namespace ddpm::data::prepare
