#include "data/prepare/packed_file.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/prepare/record_files.h"

namespace ddpm::data::prepare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Packed : public testing::Test {
 protected:
  [[nodiscard]] base::Path path(const std::string& name) const { return folder_.path() / name; }
  static std::string read(PackedFile& file, uint64_t offset, std::size_t size) {
    std::vector<uint8_t> bytes(size);
    file.read(offset, bytes);
    return {bytes.begin(), bytes.end()};
  }

  const std::string bytes_ = test::noise(300'000);

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Packed, AnyPlaceIsReadOfPlainAndPackedFiles) {
  test::write_bytes(path("plain.gz"), bytes_);  // told by content, not by name
  test::write_gzip(path("packed"), bytes_);
  for (const char* name : {"plain.gz", "packed"}) {
    PackedFile file(path(name));
    EXPECT_EQ(file.packed(), std::string(name) == "packed");
    // Reads onwards, over a small gap, over a large one, back, and at the very end.
    for (const auto& [offset, size] : std::vector<std::pair<uint64_t, std::size_t>>{
             {0, 10}, {10, 100}, {200, 5}, {290'000, 10'000}, {7, 200'000}, {299'999, 1}, {300'000, 0}}) {
      EXPECT_EQ(read(file, offset, size), bytes_.substr(offset, size)) << name << " at " << offset;
    }
    EXPECT_NO_THROW(file.expect_size(bytes_.size()));
    EXPECT_EQ(read(file, 0, 10), bytes_.substr(0, 10));
    EXPECT_THAT([&] { read(file, 299'999, 2); },
                ThrowsMessage<base::DatasetError>(HasSubstr("ends within bytes 299999 to 300001")));
  }
}

TEST_F(Packed, AnotherSizeIsRefused) {
  test::write_bytes(path("plain"), bytes_);
  test::write_gzip(path("packed"), bytes_);
  PackedFile plain(path("plain"));
  PackedFile packed(path("packed"));
  EXPECT_THAT([&] { plain.expect_size(299'999); },
              ThrowsMessage<base::DatasetError>(HasSubstr("plain: 300000 bytes, wanted 299999")));
  EXPECT_THAT([&] { packed.expect_size(299'999); },
              ThrowsMessage<base::DatasetError>(HasSubstr("packed: more than 299999 bytes unpacked, wanted 299999")));
  EXPECT_THAT([&] { packed.expect_size(300'001); },
              ThrowsMessage<base::DatasetError>(HasSubstr("packed: 300000 bytes unpacked, wanted 300001")));
}

TEST_F(Packed, NoMoreIsUnpackedThanWasWanted) {
  // Damage near the end is not reached when less is wanted than the file holds.
  test::write_gzip(path("good"), bytes_);
  std::string bytes = test::read_bytes(path("good"));
  bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 0x55);
  test::write_bytes(path("bad"), bytes);
  PackedFile file(path("bad"));
  EXPECT_THAT([&] { file.expect_size(100); }, ThrowsMessage<base::DatasetError>(HasSubstr("more than 100 bytes")));
  EXPECT_THAT([&] { file.expect_size(300'000); }, ThrowsMessage<base::DatasetError>(HasSubstr("is damaged")));
}

TEST_F(Packed, DamageAndMissingEndsAreFound) {
  test::write_gzip(path("good"), bytes_);
  const std::string good = test::read_bytes(path("good"));
  // The checksum in the last eight bytes, the size in the last four, the compressed bytes.
  for (const std::size_t place : {good.size() - 8, good.size() - 1, good.size() / 2}) {
    std::string bytes = good;
    bytes[place] = static_cast<char>(bytes[place] ^ 1);
    test::write_bytes(path("bad"), bytes);
    PackedFile file(path("bad"));
    EXPECT_THAT([&] { file.expect_size(300'000); },
                ThrowsMessage<base::DatasetError>(HasSubstr("bad: the gzip file is")))
        << place;
  }
  for (const std::size_t size : {std::size_t{18}, good.size() / 2, good.size() - 1}) {
    test::write_bytes(path("short"), good.substr(0, size));
    PackedFile file(path("short"));
    EXPECT_THAT([&] { file.expect_size(300'000); }, ThrowsMessage<base::DatasetError>(HasSubstr("cut short"))) << size;
  }
}

TEST_F(Packed, WhatIsNoFileIsRefusedAndNotWaitedFor) {
  test::write_bytes(path("file"), "x");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"pipe", "."}) {
    EXPECT_THAT([&] { PackedFile file(path(name)); },
                ThrowsMessage<base::DatasetError>(HasSubstr("not a regular file")));
  }
  EXPECT_THAT([&] { PackedFile file(path("absent")); },
              ThrowsMessage<base::DatasetError>(HasSubstr("absent: cannot open: No such file")));
}

}  // namespace
}  // namespace ddpm::data::prepare
