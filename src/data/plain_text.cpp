#include "data/plain_text.h"

#include <algorithm>

#include "base/shortened.h"
#include "base/utf8.h"
#include "data/field.h"

namespace ddpm::data {
namespace {

/// The character that the text begins with, `size` bytes of UTF-8 or, where that is 0, one byte of Latin-1.
std::string character(std::string_view text, std::size_t size) {
  if (size > 0) return std::string(text.substr(0, size));
  const auto code = static_cast<unsigned char>(text.front());
  return {static_cast<char>(0xc0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3fU))};
}

}  // namespace

bool is_plain(std::string_view text) {
  if (text.size() > kMaxNameBytes) return false;
  while (!text.empty()) {
    const std::size_t size = base::utf8_size(text);
    if (size == 0 || base::begins_with_control(text)) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string plain_unit(std::string_view unit) {
  std::string plain;
  while (!unit.empty()) {
    const std::size_t size = base::utf8_size(unit);
    const std::string next = character(unit, size);
    const bool is_control = base::begins_with_control(next);
    if (plain.size() + next.size() > kMaxNameBytes) break;
    plain += is_control ? std::string(1, ' ') : next;
    unit.remove_prefix(std::max(size, std::size_t{1}));
  }
  return std::string(base::trimmed(plain));
}

}  // namespace ddpm::data
