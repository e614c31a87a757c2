#include "generate/character_ranges.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "base/error.h"

namespace ddpm::generate {
namespace {

constexpr uint32_t kMostCodePoint = 0x10FFFF;

[[noreturn]] void refuse(std::string_view text, const std::string& problem) {
  throw base::ConfigError("characters \"{}\": {}; wanted UTF-8 text such as A-Za-z0-9", text, problem);
}

/// The number of bytes that follow the first one of a character, or none where no character begins so.
int following(uint8_t first) {
  if (first < 0x80) return 0;
  if (first >= 0xC2 && first < 0xE0) return 1;
  if (first >= 0xE0 && first < 0xF0) return 2;
  if (first >= 0xF0 && first < 0xF5) return 3;
  return -1;
}

/// RFC 3629, without overlong forms and surrogates.
std::vector<uint32_t> decode(std::string_view text) {
  constexpr std::array<uint32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  std::vector<uint32_t> codes;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<uint8_t>(text[at]);
    const int more = following(first);
    if (more < 0 || at + static_cast<std::size_t>(more) >= text.size())
      refuse(text, fmt::format("byte {} is not UTF-8", at));
    uint32_t code = more == 0 ? first : first & (0x3FU >> static_cast<unsigned>(more));
    for (int i = 1; i <= more; ++i) {
      const auto byte = static_cast<uint8_t>(text[at + static_cast<std::size_t>(i)]);
      if ((byte & 0xC0U) != 0x80U) refuse(text, fmt::format("byte {} is not UTF-8", at));
      code = code << 6U | (byte & 0x3FU);
    }
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    if (code < kLeast[static_cast<std::size_t>(more)] || surrogate || code > kMostCodePoint) {
      refuse(text, fmt::format("byte {} is not UTF-8", at));
    }
    codes.push_back(code);
    at += static_cast<std::size_t>(more) + 1;
  }
  return codes;
}

}  // namespace

std::vector<uint32_t> code_points_of(std::string_view text) {
  if (text.empty()) refuse(text, "it is empty");
  const std::vector<uint32_t> listed = decode(text);
  std::vector<uint32_t> codes;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const bool range = i + 2 < listed.size() && listed[i + 1] == '-';
    if (!range) {
      codes.push_back(listed[i]);
      continue;
    }
    if (listed[i] > listed[i + 2]) {
      refuse(text, fmt::format("the range from U+{:04X} to U+{:04X} runs backwards", listed[i], listed[i + 2]));
    }
    const std::size_t begin = codes.size();
    codes.resize(begin + listed[i + 2] - listed[i] + 1);
    std::iota(codes.begin() + static_cast<std::ptrdiff_t>(begin), codes.end(), listed[i]);
    i += 2;
  }
  std::ranges::sort(codes);
  codes.erase(std::ranges::unique(codes).begin(), codes.end());
  return codes;
}

}  // namespace ddpm::generate
