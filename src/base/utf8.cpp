#include "base/utf8.h"

#include "base/error.h"

namespace ddpm::base {

std::size_t utf8_size(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if (first == 0xe0 && second < 0xa0) return 0;   // too long a form
  if (first == 0xed && second >= 0xa0) return 0;  // half of a pair of UTF-16
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second >= 0x90) return 0;
  return size;
}

void expect_utf8(std::string_view text, std::string_view what) {
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(utf8_size(rest))) {
    if (utf8_size(rest) > 0) continue;
    throw ConfigError("{} is {}, which is not UTF-8, as names in checkpoints are; wanted: a name that is", what, text);
  }
}

bool begins_with_control(std::string_view text) {
  if (text.empty()) return false;
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x20 || first == 0x7f) return true;
  return first == 0xc2 && utf8_size(text) == 2 && static_cast<unsigned char>(text[1]) < 0xa0;
}

}  // namespace ddpm::base
