#include "data/plain_text.h"

#include "base/shortened.h"
#include "base/utf8.h"
#include "data/field.h"

namespace ddpm::data {
namespace {

/// A byte of Latin-1 above 0x7F as UTF-8.
std::string from_latin1(char byte) {
  const auto code = static_cast<unsigned char>(byte);
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
    std::string character = size == 0 ? from_latin1(unit.front()) : std::string(unit.substr(0, size));
    if (base::begins_with_control(character)) character = " ";
    if (plain.size() + character.size() > kMaxNameBytes) break;
    plain += character;
    unit.remove_prefix(size == 0 ? 1 : size);
  }
  return std::string(base::trimmed(plain));
}

}  // namespace ddpm::data
