// peers_test.py tests that another library reads the pictures back pixel by pixel.
#include "observe/png_encoder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "observe/temporary_folder.h"

namespace ddpm::observe {
namespace {

using PngEncoderTest = TemporaryFolderTest;

TEST(EncodePng, TheSamePixelsGiveTheSameBytes) {
  const std::vector<uint8_t> pixels = {1, 2, 3, 4, 5, 6};
  const std::string bytes = encode_png(pixels, 1, 2, 3);
  EXPECT_EQ(bytes, encode_png(pixels, 1, 2, 3));
  EXPECT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
}

TEST(EncodePng, RefusesChannelsThatHaveNoPicture) {
  const std::vector<uint8_t> pixels(8);
  for (const int64_t channels : {2, 4}) {
    try {
      encode_png(pixels, 2, 4 / channels, channels);
      FAIL() << channels;
    } catch (const base::OutputError& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("{} channels", channels)), std::string::npos)
          << error.what();
    }
  }
}

TEST_F(PngEncoderTest, WritesTheFileAndNothingElse) {
  const Image image{1, 1, 1, {7}};
  write_png(*files_, file("a.png"), image);
  write_png(*files_, file("a.png"), image);
  EXPECT_EQ(read(file("a.png")), encode_png(image.pixels_hwc, 1, 1, 1));
  EXPECT_EQ(file_count(), 1);
}

}  // namespace
}  // namespace ddpm::observe
