#include "data/prepare/exif.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace ddpm::data::prepare {
namespace {

std::vector<uint8_t> little_endian(uint8_t orientation) {
  return {'I',  'I',  42, 0, 8, 0, 0, 0,                        // the first directory is at 8
          2,    0,                                              // two entries
          0x00, 0x01, 3,  0, 1, 0, 0, 0, 13,          0, 0, 0,  // 0x0100, a short
          0x12, 0x01, 3,  0, 1, 0, 0, 0, orientation, 0, 0, 0};
}

std::vector<uint8_t> big_endian(uint8_t orientation) {
  return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0};
}

TEST(Exif, OrientationInEitherByteOrder) {
  for (uint8_t orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(exif_orientation(little_endian(orientation)), orientation);
    EXPECT_EQ(exif_orientation(big_endian(orientation)), orientation);
  }
}

TEST(Exif, ValuesThatMeanNothingAreUpright) {
  EXPECT_EQ(exif_orientation(little_endian(0)), 1);
  EXPECT_EQ(exif_orientation(little_endian(9)), 1);
  auto as_long = little_endian(6);
  as_long[24] = 4;  // the type
  EXPECT_EQ(exif_orientation(as_long), 1);
}

TEST(Exif, BrokenStructuresAreUprightAndNeverReadBeyondTheEnd) {
  const auto whole = little_endian(6);
  for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
    // The bytes have their own allocation, so that a sanitizer sees a read beyond them.
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(exif_orientation(cut), length < 32 ? 1 : 6) << length;
  }
  auto far = whole;
  far[4] = far[5] = far[6] = far[7] = 0xFF;  // the directory's place
  EXPECT_EQ(exif_orientation(far), 1);
  auto many = big_endian(6);
  many[8] = many[9] = 0xFF;  // 65535 entries, of which one is there
  many[11] = 0;
  EXPECT_EQ(exif_orientation(many), 1);
}

}  // namespace
}  // namespace ddpm::data::prepare
