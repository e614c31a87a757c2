#include "data/prepare/exif.h"

#include <optional>

namespace ddpm::data::prepare {
namespace {

/// Integers of a TIFF structure, in its own byte order; absent beyond its end.
class TiffBytes {
 public:
  TiffBytes(std::span<const uint8_t> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  [[nodiscard]] std::optional<uint32_t> u16(std::size_t at) const { return integer(at, 2); }
  [[nodiscard]] std::optional<uint32_t> u32(std::size_t at) const { return integer(at, 4); }

 private:
  [[nodiscard]] std::optional<uint32_t> integer(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return std::nullopt;
    uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value = value << 8U | bytes_[at + (big_endian_ ? i : size - 1 - i)];
    }
    return value;
  }

  std::span<const uint8_t> bytes_;
  bool big_endian_;
};

std::optional<TiffBytes> open_tiff(std::span<const uint8_t> bytes) {
  if (bytes.size() < 8 || bytes[0] != bytes[1] || (bytes[0] != 'I' && bytes[0] != 'M')) return std::nullopt;
  const TiffBytes tiff(bytes, bytes[0] == 'M');
  return tiff.u16(2) == 42U ? std::optional(tiff) : std::nullopt;
}

}  // namespace

int exif_orientation(std::span<const uint8_t> bytes) {
  constexpr uint32_t kOrientation = 0x0112;
  constexpr uint32_t kShort = 3;
  const auto tiff = open_tiff(bytes);
  if (!tiff) return 1;
  const std::size_t directory = tiff->u32(4).value_or(0);
  const uint32_t entries = tiff->u16(directory).value_or(0);
  // An entry is 12 bytes: tag, type, number of values, and the value itself where it fits into 4 bytes.
  for (std::size_t at = directory + 2, i = 0; i < entries; ++i, at += 12) {
    const auto tag = tiff->u16(at);
    if (!tag) return 1;
    if (*tag != kOrientation) continue;
    const uint32_t value = tiff->u16(at + 8).value_or(1);
    const bool valid = tiff->u16(at + 2) == kShort && value >= 1 && value <= 8;
    return valid ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace ddpm::data::prepare
