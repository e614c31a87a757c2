#include "data/prepare/decode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

template <std::size_t N>
bool starts_with(std::span<const std::byte> bytes, const std::array<unsigned char, N>& magic) {
  return bytes.size() >= N && std::equal(magic.begin(), magic.end(), bytes.begin(),
                                         [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

}  // namespace

FileType sniff(std::span<const std::byte> bytes) {
  constexpr std::array<unsigned char, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  constexpr std::array<unsigned char, 3> kJpeg = {0xFF, 0xD8, 0xFF};
  if (starts_with(bytes, kPng)) return FileType::png;
  if (starts_with(bytes, kJpeg)) return FileType::jpeg;
  return FileType::unknown;
}

Image decode_image(std::span<const std::byte> bytes, int channels, const DecodeLimits& limits) {
  const auto decode = [&]() -> Decoded {
    switch (sniff(bytes)) {
      case FileType::png:
        return decode_png(bytes, limits);
      case FileType::jpeg:
        return decode_jpeg(bytes, limits);
      case FileType::unknown:
        break;
    }
    throw base::DatasetError("{}", bytes.empty() ? "the file is empty" : "neither PNG nor JPEG, whatever its name");
  };
  Decoded decoded = decode();
  return upright(with_channels(std::move(decoded.image), channels), decoded.orientation);
}

}  // namespace ddpm::data::prepare
