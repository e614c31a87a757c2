#include "data/prepare/endings.h"

#include <gtest/gtest.h>

namespace ddpm::data::prepare {
namespace {

TEST(Endings, AreThoseOfNamesInLowerCase) {
  EXPECT_EQ(ending_of("a.PNG"), ".png");
  EXPECT_EQ(ending_of("a.b.Jp2"), ".jp2");
  EXPECT_EQ(ending_of("README"), "");
  EXPECT_EQ(ending_of("dot."), "");
  EXPECT_EQ(ending_of(".hidden"), "");
  EXPECT_EQ(ending_of("a.2024-01-01 backup"), "");
  EXPECT_EQ(ending_of("a.x\ny"), "");  // no line break gets into a message
}

TEST(Endings, SayWhatIsRead) {
  for (const char* ending : {".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff"}) {
    EXPECT_TRUE(is_read(ending)) << ending;
    EXPECT_FALSE(is_unread_picture(ending)) << ending;
  }
  for (const char* ending : {".bmp", ".gif", ".heic", ".avif", ".jp2", ".npy"}) {
    EXPECT_FALSE(is_read(ending)) << ending;
    EXPECT_TRUE(is_unread_picture(ending)) << ending;
  }
  EXPECT_FALSE(is_unread_picture(".txt"));
  EXPECT_FALSE(is_unread_picture(""));
}

TEST(Endings, AreCountedForPeople) {
  EXPECT_EQ(to_text({}), "none");
  EXPECT_EQ(to_text({{".webp", 1}}), "1 .webp");
  EXPECT_EQ(to_text({{"", 2}, {".bmp", 1}, {".webp", 1200}}), "1,200 .webp, 2 without an ending and 1 .bmp");
  EndingCounts many;
  for (char c = 'a'; c <= 'k'; ++c) many[std::string(".") + c] = 2;
  EXPECT_EQ(to_text(many), "2 .a, 2 .b, 2 .c, 2 .d, 2 .e, 2 .f, 2 .g, 2 .h and 6 with other endings");
  EXPECT_EQ(total(many), 22);
}

}  // namespace
}  // namespace ddpm::data::prepare
