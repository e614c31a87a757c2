// Every kind of PNG, JPEG, WebP and TIFF file against pixels that did not come from this program (see image_cases.py),
// and every kind of broken file against the reason it is refused for.
#include "data/prepare/decode.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/json.h"
#include "data/prepare/test_files.h"
#include "support/decode_image.h"

namespace ddpm::data::prepare {
namespace {

using ddpm::test::decode_image;
using testing::HasSubstr;

base::Json cases(const char* kind) { return base::parse_json(test::read_bytes(test::golden("cases.json"))).at(kind); }

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<uint8_t> from_hex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

int largest_difference(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  return largest;
}

TEST(Decode, PixelsAreThoseOfTheReference) {
  for (const base::Json& wanted : cases("good")) {
    const std::string name = wanted.at("file");
    SCOPED_TRACE(name);
    const std::string file = test::read_bytes(test::golden(name));
    const Image image = decode_image(bytes_of(file), 3);
    ASSERT_EQ(image.width, wanted.at("width"));
    ASSERT_EQ(image.height, wanted.at("height"));
    ASSERT_EQ(image.channels, 3);
    const auto pixels = from_hex(wanted.at("rgb"));
    ASSERT_EQ(image.pixels.size(), pixels.size());
    // Other builds of libjpeg and libwebp may round the inverse transform in another way. Opacity of 16 bits is rounded
    // to 8 bits first.
    const bool lossy = name.find("jpeg") != std::string::npos || name.find("lossy") != std::string::npos ||
                       sniff(bytes_of(file)) == FileType::jpeg;
    EXPECT_LE(largest_difference(image.pixels, pixels), lossy ? 2 : 0);
  }
}

/// While it lives, this process gets hardly more memory than it has.
class NoMemory {
 public:
  NoMemory() {
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    file >> pages;
    constexpr rlim_t kMore = rlim_t{32} << 20U;
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit tight{.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kMore,
                       .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &tight);
  }
  ~NoMemory() { ::setrlimit(RLIMIT_AS, &before_); }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;

 private:
  rlimit before_{};
};

/// The picture with other sizes in its header: 10,000 x 10,000 pixels, within the limits.
std::string enlarged(std::string file) {
  const std::string side("\x27\x10", 2);
  if (sniff(bytes_of(file)) == FileType::png) {
    const std::string header = std::string("IHDR\0\0", 6) + side + std::string(2, '\0') + side + file.substr(24, 5);
    const auto crc = static_cast<uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(header.data()), static_cast<uInt>(header.size())));  // NOLINT
    file.replace(12, header.size(), header);
    for (std::size_t i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
    return file;
  }
  if (sniff(bytes_of(file)) != FileType::jpeg) return file;  // it is as large
  const std::size_t frame = file.find("\xFF\xC2");           // of a progressive JPEG
  return file.replace(frame + 5, 4, side + side);
}

TEST(Decode, WithoutMemoryNothingIsSaidOfThePicture) {
  for (const char* name : {"rgb-8.png", "jpeg-progressive.JPG", "../large/large.webp", "bad-large.tif"}) {
    const std::string file = enlarged(test::read_bytes(test::golden(name)));
    const NoMemory none;
    EXPECT_THROW((void)decode_image(bytes_of(file), 3), std::bad_alloc) << name;
  }
}

TEST(Decode, WhatIsBeyondTheLimitsIsThePicturesFaultAlsoWithoutMemory) {
  for (const char* name :
       {"bad-huge.png", "bad-huge.jpg", "bad-huge.webp", "bad-huge.tif", "bad-tile.tif", "bad-samples.tif"}) {
    const std::string file = test::read_bytes(test::golden(name));
    const NoMemory none;
    EXPECT_THROW((void)decode_image(bytes_of(file), 3), base::DatasetError) << name;
  }
}

TEST(Decode, GreyIsTheLumaOfTheColours) {
  for (const char* name : {"rgb-8.png", "jpeg-444.jpeg", "grey-4.png"}) {
    SCOPED_TRACE(name);
    const std::string file = test::read_bytes(test::golden(name));
    const Image rgb = decode_image(bytes_of(file), 3);
    const Image grey = decode_image(bytes_of(file), 1);
    ASSERT_EQ(grey.channels, 1);
    ASSERT_EQ(grey.pixels.size() * 3, rgb.pixels.size());
    for (std::size_t i = 0; i < grey.pixels.size(); ++i) {
      const uint8_t* p = &rgb.pixels[3 * i];
      EXPECT_NEAR(grey.pixels[i], 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2], 0.51);
    }
  }
}

TEST(Decode, BrokenFilesAreRefusedWithTheirReason) {
  for (const base::Json& wanted : cases("bad")) {
    const std::string name = wanted.at("file");
    SCOPED_TRACE(name);
    const std::string file = test::read_bytes(test::golden(name));
    try {
      decode_image(bytes_of(file), 3);
      ADD_FAILURE() << "was decoded";
    } catch (const base::DatasetError& error) {
      EXPECT_THAT(error.what(), HasSubstr(wanted.at("reason").get<std::string>()));
    }
  }
}

TEST(Decode, EveryTruncationIsRefusedAndNoneCrashes) {
  for (const char* name :
       {"rgb-8-interlaced.png", "palette-4-alpha-interlaced.png", "exif-6.jpg", "jpeg-progressive.JPG",
        "webp-lossless-alpha.webp", "webp-lossy.webp", "webp-exif.webp", "tiff-grey-4.tif", "tiff-rgb-16.tif"}) {
    const std::string file = test::read_bytes(test::golden(name));
    for (std::size_t length = 0; length < file.size(); ++length) {
      EXPECT_THROW(decode_image(bytes_of(file.substr(0, length)), 3), base::DatasetError) << name << " " << length;
    }
  }
}

TEST(Decode, FlippedBytesNeverDoMoreThanThrowADatasetError) {
  for (const char* name :
       {"rgb-alpha-16-interlaced.png", "palette-2.png", "exif-5.jpg", "jpeg-ycck.jpg", "webp-exif.webp",
        "webp-lossy-alpha.webp", "tiff-grey-2.tif", "tiff-lzw.tif", "tiff-jpeg.tif", "tiff-fax.tif"}) {
    const std::string file = test::read_bytes(test::golden(name));
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xFF}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        try {
          const Image image = decode_image(bytes_of(damaged), 3, {.max_pixels = 1 << 20});
          EXPECT_EQ(image.pixels.size(), std::size_t(image.width) * std::size_t(image.height) * 3);
        } catch (const base::DatasetError&) {  // as good
        }
      }
    }
  }
}

TEST(Decode, LimitsAreThoseGiven) {
  const std::string file = test::read_bytes(test::golden("rgb-8.png"));  // 13 x 9
  EXPECT_EQ(decode_image(bytes_of(file), 3, {.max_pixels = 117}).pixels.size(), 351U);
  EXPECT_THROW(decode_image(bytes_of(file), 3, {.max_pixels = 116}), base::DatasetError);
  EXPECT_THROW(decode_image(bytes_of(file), 3, {.max_side = 12}), base::DatasetError);
  const std::string jpeg = test::read_bytes(test::golden("jpeg-444.jpeg"));
  EXPECT_THROW(decode_image(bytes_of(jpeg), 3, {.max_side = 12}), base::DatasetError);
}

}  // namespace
}  // namespace ddpm::data::prepare
