#include "observe/picture_files.h"

#include <limits>

#include <gmock/gmock.h>

#include "observe/colour_map.h"
#include "observe/temporary_folder.h"

namespace ddpm::observe {
namespace {

using testing::ElementsAre;
using PictureFilesTest = TemporaryFolderTest;

TEST_F(PictureFilesTest, CuttingBackLeavesNothingOfALaterStep) {
  cut_back_pictures(*files_, file("samples"), 5);  // no folder yet
  files_->create_directory(file("samples"));
  for (const char* name : {"step-00000005.png", "step-00000006.png", "step-100000000.png", "step-6.png", "notes.txt",
                           ".step-00000005.png.tmp-01", "step-00000007.png.txt"}) {
    files_->create_exclusive(file("samples") / name)->close();
  }
  cut_back_pictures(*files_, file("samples"), 5);
  EXPECT_THAT(files_->list(file("samples")),
              ElementsAre("notes.txt", "step-00000005.png", "step-00000007.png.txt", "step-6.png"));
  EXPECT_EQ(picture_name(5), "step-00000005.png");
}

// matplotlib's viridis at 0, 1/3 and 1.
TEST(Viridis, HasTheColoursOfItsName) {
  EXPECT_THAT(viridis(0.0F), ElementsAre(0x44, 0x01, 0x54));
  EXPECT_THAT(viridis(1.0F / 3), ElementsAre(0x31, 0x68, 0x8E));
  EXPECT_THAT(viridis(1.0F), ElementsAre(0xFD, 0xE7, 0x25));
  EXPECT_EQ(viridis(-3.0F), viridis(0.0F));
  EXPECT_EQ(viridis(std::numeric_limits<float>::infinity()), viridis(1.0F));
  EXPECT_THAT(viridis(std::numeric_limits<float>::quiet_NaN()), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace ddpm::observe
