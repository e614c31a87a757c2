// The test vectors are those of RFC 3720 B.4 and the catalogue value of "123456789".
#include "base/crc32c.h"

#include <array>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Crc32c, KnownAnswers) {
  std::array<std::byte, 32> zeros{};
  std::array<std::byte, 32> ones{};
  ones.fill(std::byte{0xFF});
  std::array<std::byte, 32> rising{};
  std::array<std::byte, 32> falling{};
  for (std::size_t i = 0; i < 32; ++i) {
    rising[i] = static_cast<std::byte>(i);
    falling[31 - i] = static_cast<std::byte>(i);
  }
  for (const auto crc : {&crc32c, &crc32c_by_table}) {
    EXPECT_EQ(crc(bytes_of("123456789"), 0), 0xE3069283U);
    EXPECT_EQ(crc(zeros, 0), 0x8A9136AAU);
    EXPECT_EQ(crc(ones, 0), 0x62A8AB43U);
    EXPECT_EQ(crc(rising, 0), 0x46DD794EU);
    EXPECT_EQ(crc(falling, 0), 0x113FDB5CU);
    EXPECT_EQ(crc({}, 0), 0U);
  }
}

TEST(Crc32c, InstructionAndTablesAgreeAtEveryLengthAndAlignment) {
  std::vector<std::byte> data(96);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 + 11);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t size = 0; begin + size <= data.size(); ++size) {
      const auto part = std::span(data).subspan(begin, size);
      ASSERT_EQ(crc32c(part, 0x1234U), crc32c_by_table(part, 0x1234U)) << begin << " " << size;
    }
  }
}

TEST(Crc32c, ContinuesWhereItWasCut) {
  const std::string_view text = "a checksum may be computed in two parts";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t head = crc32c(bytes_of(text.substr(0, cut)));
    EXPECT_EQ(crc32c(bytes_of(text.substr(cut)), head), crc32c(bytes_of(text))) << cut;
  }
}

}  // namespace
}  // namespace ddpm::base
